"""How few neighbours are enough: tails against scipy, bounds against exact sums and graphs."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from trilemma.crypto.neighbourhoods import (
    FAILURE_BITS,
    Neighbourhood,
    log_closed,
    log_tail,
    neighbourhood,
)

FAILURE = Fraction(1, 1 << FAILURE_BITS)
SPARSE = [(200, 180, 0.1), (400, 267, 0.1), (1000, 667, 0.1), (1000, 667, 0.2), (1000, 900, 0.3)]


def log_factorials(n: int) -> Any:
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))


def found(n: int, threshold: int, corrupt: float) -> Neighbourhood:
    made = neighbourhood(n, threshold, corrupt)
    assert made is not None
    return made


def tail(others: int, marked: int, draws: int, least: int) -> Fraction:
    """P[H >= least], exactly."""
    ways = sum(comb(marked, j) * comb(others - marked, draws - j) for j in range(least, draws + 1))
    return Fraction(ways, comb(others, draws))


def test_tails_are_those_of_scipy() -> None:
    rng, logs = np.random.default_rng(1), log_factorials(3000)
    for _ in range(300):
        others = int(rng.integers(2, 3000))
        marked, draws = int(rng.integers(0, others + 1)), int(rng.integers(1, others + 1))
        least = int(rng.integers(0, draws + 2))
        ours = float(log_tail(logs, others, marked, draws, least))
        theirs = float(stats.hypergeom.logsf(least - 1, others, marked, draws))
        if theirs > -600:  # beyond that scipy's own sum underflows
            assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-9)
    many = log_tail(logs, 999, np.array([100, 300]), 50, 20)
    assert many == pytest.approx([log_tail(logs, 999, number, 50, 20) for number in (100, 300)])


@pytest.mark.parametrize(("n", "threshold", "corrupt"), SPARSE)
def test_holders_are_left_and_helpers_open_nothing(n: int, threshold: int, corrupt: float) -> None:
    made, helpers = found(n, threshold, corrupt), int(corrupt * n)
    d, t = made.draws, made.threshold
    assert n * tail(n - 1, n - threshold, d, d - t + 1) <= FAILURE
    assert n * tail(n - 1, n - threshold, d, d - t) > FAILURE, "a higher threshold would fail"
    assert n * tail(n - 1, helpers, d, t) <= FAILURE / 3
    theirs = n * stats.hypergeom.sf(t - 1, n - 1, helpers, d)
    assert theirs == pytest.approx(float(n * tail(n - 1, helpers, d, t)), rel=1e-6)


@pytest.mark.parametrize(("n", "threshold", "corrupt"), SPARSE)
def test_no_second_list_passes_the_sampled_signatures(
    n: int, threshold: int, corrupt: float
) -> None:
    checks, true = found(n, threshold, corrupt).checks, (n + int(corrupt * n)) // 2
    assert 2 * (true + 1) > n + int(corrupt * n), "two lists cannot both have more"

    def passing(m: int) -> Fraction:
        return n * Fraction(comb(true, m), comb(threshold, m))

    assert passing(checks) <= FAILURE / 3 < passing(checks - 1)


def closed_sets(n: int, threshold: int, helpers: int, d: int, t: int, missing: int) -> Fraction:
    """The union bound over closed sets that leave out more than `missing`, exactly."""
    honest, left, total = n - helpers, threshold - helpers, Fraction(0)
    for a in range(1, left - missing):
        b = left - a
        lists = comb(honest - a, b) * Fraction(comb(n - 1 - b, d), comb(n - 1, d)) ** a
        held = tail(n - 1, a - 1 + helpers, d, t) ** a if 2 * a <= left else lists
        total += comb(honest, a) * min(held, lists)
    return total


@pytest.mark.parametrize(("n", "threshold", "corrupt"), [(200, 180, 0.1), (200, 190, 0.3)])
def test_closed_sets_are_ruled_out_and_fewer_draws_would_not_do(
    n: int, threshold: int, corrupt: float
) -> None:
    made, helpers = found(n, threshold, corrupt), int(corrupt * n)
    facts = n, threshold, helpers, made.draws, made.threshold
    assert closed_sets(*facts, made.missing) <= FAILURE / 3
    assert closed_sets(*facts, made.missing - 1) > FAILURE / 3
    d, t = made.draws - 1, made.draws - 1
    while n * tail(n - 1, n - threshold, d, d - t + 1) > FAILURE:
        t -= 1
    alone = n * tail(n - 1, helpers, d, t) > FAILURE / 3
    assert alone or closed_sets(n, threshold, helpers, d, t, n // 50) > FAILURE / 3


@pytest.mark.parametrize(
    ("n", "threshold", "helpers", "d", "t", "missing", "often"),
    [
        (10, 9, 1, 4, 3, 1, True),
        (12, 11, 1, 4, 3, 2, True),
        (12, 12, 1, 3, 2, 2, True),
        (12, 12, 1, 3, 2, 0, True),
        (12, 11, 1, 6, 5, 1, False),
    ],
)
def test_drawn_graphs_have_closed_sets_as_rarely_as_the_bound_says(
    n: int, threshold: int, helpers: int, d: int, t: int, missing: int, often: bool
) -> None:
    """All sets and lists of small graphs: a liar finds a sum to open no oftener than P."""
    graphs, rng = 400, np.random.default_rng(2)
    honest, left = n - helpers, threshold - helpers
    sizes = np.arange(1, left - missing)
    terms = log_closed(log_factorials(n), n, left, helpers, d, t, sizes)
    bound = float(np.exp(np.logaddexp.reduce(terms)))
    sets = np.arange(1, 1 << honest)
    members, helping = np.bitwise_count(sets), ((1 << n) - 1) ^ ((1 << honest) - 1)
    hits = 0
    for _ in range(graphs):
        closed, reached = np.ones(len(sets), np.bool_), sets.copy()
        for u in range(honest):
            others = [number for number in range(n) if number != u]
            drew = sum(1 << int(item) for item in rng.choice(others, d, replace=False))
            inside = (sets >> u) & 1 == 1
            closed &= ~inside | (np.bitwise_count(drew & (sets | helping)) >= t)
            reached |= np.where(inside, drew, 0)
        outside = honest - np.bitwise_count(reached & ~helping).astype(int)
        hits += bool((closed & (outside > missing) & (members + outside >= left)).any())
    slack = 4 * math.sqrt(bound * (1 - min(bound, 1)) / graphs)
    assert hits / graphs <= bound + slack
    assert (hits > 0) is often, "the bound speaks of what happens"


def test_drawn_holders_are_lost_as_rarely_as_the_tail_says() -> None:
    n, dropped, d, t, rng = 40, 8, 10, 5, np.random.default_rng(3)
    expected = n * float(tail(n - 1, dropped, d, d - t + 1))
    lost = 0
    rounds = 300
    for _ in range(rounds):
        drew = [rng.choice(n - 1, d, replace=False) for _ in range(n)]
        lost += sum(int((item < dropped).sum() > d - t) for item in drew)
    assert lost / rounds == pytest.approx(expected, abs=4 * math.sqrt(expected / rounds))


@pytest.mark.parametrize(
    ("n", "threshold", "corrupt"),
    [
        (3, 3, 0.1),
        (20, 14, 0.1),
        (100, 67, 0.1),
        (300, 201, 0.1),  # the graph would have more than half of all pairs
        (1000, 667, 0.4),  # so many helpers sign two lists
        (1000, 501, 0.1),
        (1000, 667, 0.99),
    ],
)
def test_all_pairs_where_a_graph_saves_too_little(n: int, threshold: int, corrupt: float) -> None:
    assert neighbourhood(n, threshold, corrupt) is None


def test_neighbours_grow_slowly() -> None:
    k = [found(n, 9 * n // 10, 0.1).neighbours for n in (400, 1000, 10_000, 100_000)]
    assert k == sorted(k)
    assert k[-1] < 1.6 * k[0]
