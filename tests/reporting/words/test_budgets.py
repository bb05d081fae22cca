"""Budgets in words: each rate by Bayes' rule, the table from the request itself."""

from __future__ import annotations

import math

import pytest

from trilemma.reporting.words.budgets import OTHERS, one_in, private_rate, show_budget
from trilemma.tuning.request import Request


def test_privacy_bounds_the_right_picks() -> None:
    """Randomised response among N is ε-private, and its mode is right just as often."""
    for epsilon, candidates in ((0.1, 5), (1.0, 100), (8.0, 38)):
        weights = [math.exp(epsilon)] + [1.0] * (candidates - 1)
        assert private_rate(epsilon, candidates) == pytest.approx(weights[0] / sum(weights))
    assert private_rate(0.0, 20) == pytest.approx(1 / 20)


def test_a_rate_as_a_chance() -> None:
    assert [one_in(value) for value in (0.5, 0.51, 1 / 11)] == ["1 in 2", "5.1 in 10", "1 in 11"]


def test_the_table_has_a_row_for_each_candidate_set(capsys: pytest.CaptureFixture[str]) -> None:
    show_budget(Request(budget=0.2), None)
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line[2:3].isdigit()]
    assert [row[0] for row in rows] == ["10", "20", "38", "100", "1000"]
    assert {row[-1] for row in rows} == {"0.2"}
    assert all(" ".join(item.split()[:4]) in " ".join(out.split()) for item in OTHERS)
