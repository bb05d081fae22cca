from __future__ import annotations

import numpy as np
import pytest
import torch

from trilemma.attacks.posterior.inner_products import (
    Table,
    class_table,
    held_out_remainder,
    tabulate,
)

M, P, N, A = 30, 12, 4, 3


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


ROWS, GUESSES, ANCHORS = numbers(2, P, M), numbers(2, N, M, seed=1), numbers(2, A, M, seed=2)


def table(rows: torch.Tensor = ROWS, known: int = M) -> Table:
    return tabulate(
        (lambda a, b: rows[:, a:b], rows.shape[1]),
        (lambda a, b: GUESSES[:, a:b], N),
        ANCHORS,
        torch.full((2,), float(known), dtype=torch.float64),
    )


def test_blocks_give_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table()
    assert torch.allclose(whole.rows, ROWS @ ROWS.transpose(1, 2))
    monkeypatch.setattr("trilemma.attacks.posterior.inner_products._HELD", 2 * M * 5)
    pieces = table()
    for name in vars(whole):
        assert torch.allclose(getattr(whole, name), getattr(pieces, name))


def test_forms_are_those_of_the_whole_covariance() -> None:
    weights = torch.rand(2, 3, P, generator=torch.Generator().manual_seed(3)).double()
    weights[0, 0, 4] = 0
    remainder = torch.tensor([0.3, 0.01], dtype=torch.float64)
    forms = table().forms(weights, remainder)
    mix, share, shifts = (
        numbers(2, 1, 2, N, seed=4),
        numbers(2, 1, N, seed=5),
        numbers(2, 3, 1, 1, seed=6),
    )
    found = forms.of(mix, share, shifts)[:, :, 0]
    for unit in range(2):
        logs = []
        for distribution in range(3):
            covariance = (ROWS[unit].T * weights[unit, distribution]) @ ROWS[unit] + remainder[
                unit
            ] * torch.eye(M, dtype=torch.float64)
            logs.append(float(torch.logdet(covariance)))
            for j in range(N):
                left = (
                    mix[unit, 0, :, j] @ ANCHORS[unit, :2]
                    - shifts[unit, distribution, 0, 0] * (ANCHORS[unit, 2])
                )
                left = left - share[unit, 0, j] * GUESSES[unit, j]
                form = left @ torch.linalg.solve(covariance, left)
                assert float(found[unit, distribution, j]) == pytest.approx(float(form), rel=1e-8)
        differences = forms.log_det[unit] - forms.log_det[unit, 0]
        assert differences.tolist() == pytest.approx([log - logs[0] for log in logs], abs=1e-8)


def test_a_widened_form_has_one_more_direction() -> None:
    weights, remainder = torch.ones(2, P).double(), torch.ones(2).double()
    variance = torch.tensor([0.5, 2.0], dtype=torch.float64)
    forms = table().forms(weights, remainder)
    wide = forms.widened(1, variance)
    for unit in range(2):
        covariance = ROWS[unit].T @ ROWS[unit] + torch.eye(M, dtype=torch.float64)
        more = covariance + variance[unit] * torch.outer(ANCHORS[unit, 1], ANCHORS[unit, 1])
        inverse = torch.linalg.inv(more)
        assert torch.allclose(wide.anchor[unit], ANCHORS[unit] @ inverse @ ANCHORS[unit].T)
        cross = ANCHORS[unit] @ inverse @ GUESSES[unit].T
        assert torch.allclose(wide.anchor_candidate[unit], cross)
        own = (GUESSES[unit] @ inverse * GUESSES[unit]).sum(1)
        assert torch.allclose(wide.candidate[unit], own)
        grown = torch.logdet(more) - torch.logdet(covariance)
        assert float(wide.log_det[unit] - forms.log_det[unit]) == pytest.approx(float(grown))


def test_class_means_become_anchors() -> None:
    labels = torch.arange(P) % 3
    member = (
        torch.nn.functional.one_hot(labels, 4).double().expand(2, -1, -1)
    )  # one class is empty
    found = class_table(table(), member)
    means = torch.stack([ROWS[:, labels == c].mean(1) for c in range(3)], 1)
    means = torch.cat([means, torch.zeros(2, 1, M)], 1).double()
    centred = ROWS - means[:, labels]
    anchors = torch.cat([ANCHORS, means], 1)
    expected = tabulate(
        (lambda a, b: centred[:, a:b], P),
        (lambda a, b: GUESSES[:, a:b], N),
        anchors,
        torch.full((2,), float(M), dtype=torch.float64),
    )
    for name in vars(found):
        assert torch.allclose(getattr(found, name), getattr(expected, name), atol=1e-9), name


@pytest.mark.parametrize(("population", "size"), [(30, 200), (30, 34), (60, 40), (200, 10)])
def test_the_remainder_makes_left_out_records_as_far_off_as_expected(
    population: int, size: int
) -> None:
    """Against the forms themselves, one record left out at a time."""
    scales = torch.logspace(0, -3, size, dtype=torch.float64)
    rows = numbers(1, population, size, seed=population + size) * scales
    rows = rows - rows.mean(1, keepdim=True)
    empty = torch.zeros(1, 1, size, dtype=torch.float64)
    made = tabulate(
        (lambda a, b: rows[:, a:b], population),
        (lambda a, b: empty[:, a:b], 1),
        empty,
        torch.tensor([float(size)], dtype=torch.float64),
    )
    remainder = float(held_out_remainder(made.rows, made.known, torch.zeros(1)))
    forms = []
    for left in range(population):
        others = np.delete(rows[0].numpy(), left, 0)
        mean = others.mean(0)
        covariance = (others - mean).T @ (others - mean) / (population - 2) + remainder * np.eye(
            size
        )
        gap = rows[0, left].numpy() - mean
        forms.append(gap @ np.linalg.solve(covariance, gap))
    assert np.mean(forms) == pytest.approx(size, rel=0.25)


def test_a_remainder_far_below_the_noise_is_not_sought() -> None:
    most = ROWS.square().sum(2).mean(1) / M
    made = table()

    def remainder(noise: torch.Tensor) -> torch.Tensor:
        return held_out_remainder(made.rows, made.known, noise)

    assert bool((remainder(torch.zeros(2)) <= most).all())
    assert bool((remainder(101 * most) == 0).all())
    assert bool((remainder(50 * most) > 0).all())


def test_a_few_rows_show_that_a_remainder_is_small() -> None:
    """Five strong directions, which hide nothing once some rows have shown them."""
    scales = torch.full((200,), 0.1, dtype=torch.float64)
    scales[:5] = 10.0
    rows = numbers(1, 100, 200, seed=3) * scales
    rows = rows - rows.mean(1, keepdim=True)
    products, known = rows @ rows.transpose(1, 2), torch.tensor([200.0], dtype=torch.float64)

    def remainder(noise: torch.Tensor) -> torch.Tensor:
        return held_out_remainder(products, known, noise)

    sought = remainder(torch.zeros(1, dtype=torch.float64))
    most = rows.square().sum(2).mean(1) / 200
    assert float(most) > 100 * float(sought)
    assert float(remainder(400 * sought)) == 0
    assert float(remainder(50 * sought)) == pytest.approx(float(sought))


@pytest.mark.parametrize("place", [0, 99])
def test_an_outlier_is_seen_wherever_it_stands(place: int) -> None:
    rows = numbers(1, 100, 200, seed=3)
    rows[:, place] *= 1000
    rows = rows - rows.mean(1, keepdim=True)
    products, known = rows @ rows.transpose(1, 2), torch.tensor([200.0], dtype=torch.float64)
    noise = torch.tensor([10.0], dtype=torch.float64)
    assert float(held_out_remainder(products, known, noise)) > float(noise)
