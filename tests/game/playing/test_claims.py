"""How many candidates a federation allows, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.errors import InvalidInput
from trilemma.game.playing.claims import Claim, checkpoints


@pytest.mark.parametrize(
    ("sizes", "unit", "rounds", "candidates", "inserted"),
    [
        ([150] * 10, 4, 1, 100, False),  # min(100, n - S + 1)
        ([60] * 10, 4, 1, 57, False),
        ([150] * 10, 4, 150, 38, False),  # min(100, 1 + n // 4)
        ([1000, 150], 4, 150, 38, False),  # the smallest client decides
        ([150] * 10, 150, 1, 38, False),  # an update of all records: the decoys leave the data
        ([40] * 10, 4, 150, 100, True),  # 11 of its own are too few: drawn from all clients
        ([12] * 2, 1, 150, 7, True),
    ],
)
def test_the_largest_line_up(
    sizes: list[int], unit: int, rounds: int, candidates: int, inserted: bool
) -> None:
    claim = Claim.of(sizes, unit, rounds=rounds)
    assert (claim.candidates, claim.inserted) == (candidates, inserted)
    assert claim.kappa == 1 / candidates


def test_a_line_up_that_was_asked_for() -> None:
    assert Claim.of([150] * 10, 4, rounds=1, candidates=20).candidates == 20
    with pytest.raises(InvalidInput, match=r"candidate set of 101 .* allow 38"):
        Claim.of([150] * 10, 4, rounds=150, candidates=101)


def test_a_small_line_up_of_ones_own_is_not_replaced_by_strangers() -> None:
    assert not Claim.of([40] * 10, 4, rounds=150, candidates=10).inserted


@pytest.mark.parametrize(("rounds", "candidates"), [(0, 5), (1, 1)])
def test_senseless_claims_are_refused(rounds: int, candidates: int) -> None:
    with pytest.raises(InvalidInput, match=r"at least"):
        Claim(rounds, candidates)


@given(st.integers(2, 100_000))
def test_checkpoints_rise_from_one_round_to_all(rounds: int) -> None:
    steps = checkpoints(rounds)
    assert (steps[0], steps[-1]) == (1, rounds)
    assert all(a < b for a, b in pairwise(steps))
    assert len(steps) <= 6
