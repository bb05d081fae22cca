"""The guess: nearest candidate or mode, ties drawn, nothing known means 1/N."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import binomtest

from trilemma.beliefs.candidate_set import (
    distances,
    guess,
    mean_squared,
    relative_distances,
)
from trilemma.errors import InvalidInput


def test_mean_squared_is_the_plain_double_loop() -> None:
    draw = torch.Generator().manual_seed(1)
    made, candidates = torch.rand(3, 2, 4, generator=draw), torch.rand(5, 2, 4, generator=draw)
    table = mean_squared(made, candidates)
    for r in range(3):
        for n in range(5):
            expected = float(((made[r].double() - candidates[n].double()) ** 2).mean())
            assert float(table[r, n]) == pytest.approx(expected, rel=1e-12)


def test_a_reconstruction_that_is_no_number_is_far_from_all() -> None:
    table = distances(torch.tensor([[float("nan")]]), torch.tensor([[0.0], [1.0]]), mean_squared)
    assert torch.isinf(table).all()


def test_a_distance_of_ones_own_is_used_and_checked() -> None:
    made, candidates = torch.zeros(1, 2), torch.tensor([[0.0, 1.0], [2.0, 0.0]])

    def first_entry(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a[:, None, 0] - b[None, :, 0]).abs()

    assert distances(made, candidates, first_entry).tolist() == [[0.0, 2.0]]
    with pytest.raises(InvalidInput, match=r"\[1, 2\], got \[2\]"):
        distances(made, candidates, lambda a, b: b[:, 0])


@pytest.mark.parametrize("known", [False, True], ids=["candidates", "public"])
def test_several_reconstructions_compete_by_how_common_each_is(known: bool) -> None:
    """In units of the mean distance to the nearest three, by a plain loop."""
    draw = torch.Generator().manual_seed(2)
    made, candidates = torch.rand(4, 6, generator=draw), torch.rand(9, 6, generator=draw)
    public = torch.rand(40, 6, generator=draw)
    table = relative_distances(made, candidates, public if known else None, mean_squared)
    for row, found in zip(made, table, strict=True):
        others = public if known else candidates
        near = sorted(float((row - item).double().square().mean()) for item in others)[:3]
        expected = (row - candidates).double().square().mean(1) / (sum(near) / 3)
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_a_single_reconstruction_competes_with_none() -> None:
    made, candidates = torch.rand(1, 6), torch.rand(9, 6)
    table = relative_distances(made, candidates, candidates, mean_squared)
    assert torch.equal(table, distances(made, candidates, mean_squared))
    same = relative_distances(torch.zeros(2, 1), torch.zeros(1, 1), None, mean_squared)
    assert torch.equal(same, torch.zeros(2, 1)), "0 in units of nearly 0"


@pytest.mark.parametrize(
    "scores", [torch.zeros(5), torch.full((5,), float("nan")), torch.full((5,), -torch.inf)]
)
def test_who_knows_nothing_guesses_each_place_as_often(scores: torch.Tensor) -> None:
    draw = torch.Generator().manual_seed(3)
    guesses = [guess(scores, draw) for _ in range(2000)]
    for place in range(5):
        assert binomtest(guesses.count(place), 2000, 0.2).pvalue > 1e-4


def test_ties_are_drawn_among_the_best_alone() -> None:
    draw = torch.Generator().manual_seed(0)
    guesses = {guess(torch.tensor([1.0, 3.0, 3.0, float("nan")]), draw) for _ in range(50)}
    assert guesses == {1, 2}
