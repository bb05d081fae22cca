from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from trilemma.beliefs.line_up import (
    LineUp,
    add_beliefs,
    mean_squared_error,
    nearest,
    nearest_of_rounds,
    pick_mode,
    pick_nearest,
)
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput


def test_every_record_is_tagged_alike_and_stands_anywhere() -> None:
    drawn = [LineUp.draw(range(6), 4, Seeded(seed)) for seed in range(1200)]
    assert all(len(set(each.rows)) == 4 for each in drawn)
    for counts, share in (
        (Counter(each.tagged_row for each in drawn), 1 / 6),
        (Counter(each.tagged for each in drawn), 1 / 4),
        (Counter(each.rows[0] for each in drawn), 1 / 6),
    ):
        assert all(binomtest(n, len(drawn), share).pvalue > 1e-4 for n in counts.values())
    assert drawn[0] == LineUp.draw(range(6), 4, Seeded(0))


def test_copies_leave_the_line_up() -> None:
    keys = [b"a", b"b", b"a", b"c", b"b"]
    for seed in range(20):
        drawn = LineUp.draw(keys, 3, Seeded(seed))
        assert sorted(drawn.rows) == [0, 1, 3]
    with pytest.raises(InvalidInput, match="4 needs as many different records, but there are 3"):
        LineUp.draw(keys, 4, Seeded(0))


def test_a_line_up_checks_itself() -> None:
    with pytest.raises(InvalidInput, match="at least 2 different candidates"):
        LineUp((3,), 0)
    with pytest.raises(InvalidInput, match="at least 2 different candidates"):
        LineUp((3, 3), 0)
    with pytest.raises(InvalidInput, match="got place 2"):
        LineUp((3, 4), 2)
    one = LineUp((3, 4), 1)
    assert (len(one), one.blind_rate, one.solved(1), one.solved(0)) == (2, 0.5, True, False)


def test_the_nearest_is_near_to_any_reconstruction() -> None:
    draw = np.random.default_rng(0)
    found, candidates = draw.random((3, 2, 5)), draw.random((6, 2, 5))
    table = [[((a - b) ** 2).mean() for b in candidates] for a in found]
    distances = nearest(torch.tensor(found), torch.tensor(candidates))
    assert np.allclose(distances.numpy(), np.min(table, 0))
    assert np.allclose(mean_squared_error(torch.tensor(found), torch.tensor(candidates)), table)


def test_a_distance_may_be_given() -> None:
    def share_of_tokens(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return (found[:, None] != wanted[None]).double().mean(2)

    found = torch.tensor([[1, 2, 3], [7, 7, 7]])
    wanted = torch.tensor([[1, 2, 9], [0, 0, 0], [7, 7, 0]])
    distances = nearest(found, wanted, share_of_tokens)
    assert distances.tolist() == pytest.approx([1 / 3, 1, 1 / 3])
    with pytest.raises(InvalidInput, match=r"= \[2, 3\], got \[2\]"):
        nearest(found, wanted, lambda a, b: torch.zeros(2))


def test_what_diverged_is_near_to_nothing() -> None:
    found = torch.tensor([[torch.nan, 0.0], [1.0, 1.0]])
    candidates = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert nearest(found, candidates).tolist() == [1.0, 0.0]
    assert nearest(found[:1], candidates).tolist() == [torch.inf, torch.inf]


def test_rounds_of_one_unit_are_combined() -> None:
    rounds = [torch.tensor([[0.3, 0.1]]), torch.tensor([[0.2, 0.5]])]
    assert nearest_of_rounds(rounds)[0].tolist() == pytest.approx([0.2, 0.1])
    logs = [torch.log(each / each.sum()) for each in rounds]
    after = torch.tensor([0.3 * 0.2, 0.1 * 0.5])
    assert torch.allclose(add_beliefs(logs)[0].exp(), after / after.sum())


@pytest.mark.parametrize("value", [0.0, torch.inf, torch.nan])
def test_ties_are_drawn_and_blind_picks_solve_one_in_n(value: float) -> None:
    distances = torch.full((3000, 5), value)
    picks = pick_nearest(distances, Seeded(1))
    counts = torch.bincount(picks, minlength=5).tolist()
    assert all(binomtest(n, 3000, 1 / 5).pvalue > 1e-4 for n in counts)
    assert torch.equal(picks, pick_nearest(distances, Seeded(1)))
    assert not torch.equal(picks, pick_nearest(distances, Seeded(2)))


def test_a_tie_is_among_the_best_only() -> None:
    picks = pick_mode(torch.tensor([[0.4, 0.1, 0.4, 0.1]]).log().expand(200, 4), Seeded(0))
    assert set(picks.tolist()) == {0, 2}
