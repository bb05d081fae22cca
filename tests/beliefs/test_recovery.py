from itertools import permutations

import numpy as np
import pytest
import torch

from trilemma.beliefs.recovery import Criterion, best_pairing, psnr_matrix, ssim_matrix
from trilemma.errors import InvalidInput
from trilemma.records.range import InputSpec

UNIT = InputSpec((1,), 0.0, 1.0)


def test_psnr_agrees_with_the_definition_in_numpy() -> None:
    rng = np.random.default_rng(0)
    guesses, records = rng.uniform(-2, 3, (2, 3, 1, 4, 5)), rng.uniform(-1, 2, (2, 3, 1, 4, 5))
    matrix = psnr_matrix(torch.tensor(guesses), torch.tensor(records), InputSpec((1,), -1.0, 2.0))
    for n in range(2):
        for i in range(3):
            for j in range(3):
                error = np.mean((np.clip(guesses[n, i], -1, 2) - records[n, j]) ** 2)
                assert matrix[n, i, j].item() == pytest.approx(10 * np.log10(9 / error))


@pytest.mark.parametrize(("scale", "threshold"), [(60.0, 20.0), (1.0, 0.6), (60.0, 100.0)])
def test_pairing_recovers_as_many_as_any_permutation(scale: float, threshold: float) -> None:
    draw = torch.Generator().manual_seed(1)
    scores = scale * torch.rand(60, 4, 4, generator=draw, dtype=torch.float64) ** 2
    chosen = best_pairing(scores, threshold)
    by_total = 0
    for unit, rows in zip(scores, chosen, strict=True):

        def worth(order: tuple[int, ...], unit: torch.Tensor = unit) -> tuple[int, float]:
            paired = [unit[i, j].item() for j, i in enumerate(order)]
            return sum(item > threshold for item in paired), sum(paired)

        best = max(permutations(range(4)), key=worth)
        assert tuple(rows.tolist()) == best
        largest = max(permutations(range(4)), key=lambda order: worth(order)[1])
        by_total += worth(largest)[0] < worth(best)[0]
    assert by_total or threshold > scale, "the largest total alone would recover fewer"


def test_a_shuffled_batch_is_recovered_by_assignment_but_not_by_position() -> None:
    records = torch.rand(5, 4, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    shuffled = records[:, [1, 2, 3, 0]]
    criterion = Criterion("psnr", 20.0)
    found = criterion.match(shuffled, records, UNIT)
    assert found.recovered.all()
    assert (found.similarity == 300).all()
    assert found.partner.tolist() == [[3, 0, 1, 2]] * 5
    by_position = criterion.match(shuffled, records, UNIT, by_position=True)
    assert not by_position.recovered.any()
    assert by_position.partner.tolist() == [[0, 1, 2, 3]] * 5


def test_nan_is_not_recovered_and_leaves_the_rest_of_the_batch_alone() -> None:
    records = torch.rand(1, 3, 6, generator=torch.Generator().manual_seed(3))
    guesses = records.clone()
    guesses[0, 1] = float("nan")
    found = Criterion().match(guesses, records, UNIT)
    assert found.recovered.tolist() == [[True, False, True]]


def test_values_outside_the_range_are_clamped_before_comparison() -> None:
    records = torch.tensor([[[0.0, 1.0]]])
    found = Criterion().match(torch.tensor([[[-5.0, 7.0]]]), records, UNIT)
    assert found.recovered.item()
    assert found.similarity.item() == 300


def test_ssim_is_one_for_a_copy_and_follows_the_formula_for_constant_images() -> None:
    a, b = 0.25, 0.75
    images = torch.stack([torch.full((1, 12, 12), a), torch.full((1, 12, 12), b)])[None]
    matrix = ssim_matrix(images, images, UNIT)
    # Without variance only the luminance term is left: (2ab + c1) / (a² + b² + c1), c1 = 0.01².
    expected = (2 * a * b + 1e-4) / (a**2 + b**2 + 1e-4)
    assert torch.allclose(
        matrix, torch.tensor([[[1, expected], [expected, 1]]], dtype=torch.float64), atol=1e-6
    )


def test_ssim_of_images_smaller_than_its_window_is_refused() -> None:
    small = torch.rand(1, 1, 1, 8, 8)
    with pytest.raises(InvalidInput, match="window of 11x11"):
        ssim_matrix(small, small, UNIT)


@pytest.mark.parametrize(
    ("metric", "threshold"), [("mse", 1.0), ("psnr", float("nan")), ("ssim", 20.0)]
)
def test_a_criterion_checks_itself(metric: str, threshold: float) -> None:
    with pytest.raises(InvalidInput):
        Criterion(metric, threshold)  # type: ignore[arg-type]


def test_shapes_must_agree() -> None:
    with pytest.raises(InvalidInput, match="same shape"):
        psnr_matrix(torch.zeros(1, 2, 3), torch.zeros(1, 1, 3), UNIT)
