from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from trilemma.beliefs.envelopes import envelopes
from trilemma.errors import InvalidInput

Table = NDArray[Any]


def brute_force(won: Table, games: Table, proof: Table, confidence: float) -> tuple[Table, Table]:
    """By the definition, cell for cell, with scipy's intervals."""
    kinds, strengths = won.shape
    cells = [(k, z) for k in range(kinds) for z in range(strengths) if games[k, z]]
    ends = {}
    for k, z in cells:
        test = binomtest(int(won[k, z]), int(games[k, z]))
        ends[k, z] = test.proportion_ci(1 - (1 - confidence) / len(cells), method="exact")
    lower, upper = np.zeros(won.shape), np.ones(won.shape)
    for k in range(kinds):
        for z in range(strengths):
            above = [ends[a, b].high for a, b in cells if a >= k and b <= z]
            upper[k, z] = min([1.0, *above, *proof[: z + 1]])
            lower[k, z] = max([0.0, *(ends[a, b].low for a, b in cells if a <= k and b >= z)])
    return lower, upper


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_envelopes_are_those_of_the_definition(confidence: float) -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        games = draw.integers(0, 4, (4, 6)) * 15
        won = draw.binomial(games, draw.random((4, 6)))
        proof = np.sort(draw.random(6))[::-1]
        lower, upper, crossed = envelopes(won, games, proof, confidence)
        expected = brute_force(won, games, proof, confidence)
        np.testing.assert_allclose(lower, expected[0], atol=1e-9)
        np.testing.assert_allclose(upper, expected[1], atol=1e-9)
        np.testing.assert_array_equal(crossed, expected[0] > expected[1])


def test_envelopes_rise_with_knowledge_and_fall_with_noise() -> None:
    draw = np.random.default_rng(4)
    games = np.full((5, 7), 40)
    lower, upper, _ = envelopes(draw.binomial(games, draw.random((5, 7))), games)
    for ends in (lower, upper):
        assert (np.diff(ends, axis=0) >= 0).all()
        assert (np.diff(ends, axis=1) <= 0).all()


def test_true_rates_lie_within_all_envelopes_at_once() -> None:
    """Of 400 tables of a monotone truth, at most a share of 1 - confidence has a rate outside."""
    draw = np.random.default_rng(5)
    knows, noise = np.arange(4)[:, None], np.arange(5)
    truth = 0.03 + 0.8 / (1 + np.exp(noise - knows))
    proof = np.minimum(1.0, truth.max(axis=0) + 0.01)
    games = np.full(truth.shape, 60)
    inside = crossed = 0
    for _ in range(400):
        lower, upper, apart = envelopes(draw.binomial(games, truth), games, proof, 0.9)
        inside += bool(((lower <= truth) & (truth <= upper)).all())
        crossed += bool(apart.any())
    assert binomtest(inside, 400, 0.9, alternative="less").pvalue > 0.01
    assert crossed <= 400 - inside


def test_a_weaker_attacker_who_wins_more_is_shown_as_a_contradiction() -> None:
    won, games = [[60, 3], [5, 2]], [[80, 80], [80, 80]]
    lower, upper, crossed = envelopes(won, games)
    assert crossed[0, 0]
    assert crossed[1, 0]
    assert not crossed[:, 1].any()
    assert lower[1, 0] > upper[1, 0]
    _, _, crossed = envelopes([[60]], [[80]], proof=[0.3])
    assert crossed.all()


def test_where_nothing_was_played_only_neighbours_and_the_proof_speak() -> None:
    lower, upper, crossed = envelopes([[0, 0]], [[0, 0]], proof=[0.6, 0.2])
    assert lower.tolist() == [[0.0, 0.0]]
    assert upper.tolist() == [[0.6, 0.2]]
    assert not crossed.any()


@pytest.mark.parametrize(
    ("won", "games", "proof"),
    [
        ([1], [2], None),
        ([[1]], [[2, 3]], None),
        ([[3]], [[2]], None),
        ([[1]], [[0]], None),
        ([[0.5]], [[2]], None),
        ([[-1]], [[2]], None),
        ([[]], [[]], None),
        ([[1]], [[2]], [0.5, 0.2]),
        ([[1]], [[2]], [1.5]),
        ([[1]], [[2]], [float("nan")]),
    ],
)
def test_what_is_not_a_table_of_counts_is_refused(won: Any, games: Any, proof: Any) -> None:
    with pytest.raises(InvalidInput):
        envelopes(won, games, proof)
