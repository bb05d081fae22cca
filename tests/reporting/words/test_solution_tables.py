"""The closed forms as a table: every number of a solution, and what it is worth."""

from __future__ import annotations

import pytest

from trilemma.paper_framework.mechanisms import mechanism
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.solving import solve
from trilemma.paper_framework.surrogate_bounds import Constants
from trilemma.reporting.words.solution_tables import show
from trilemma.tuning.problem import Problem


def test_a_column_for_each_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    constants, problem = Constants(0.9, 1000.0), Problem(0.3)
    profile = Profile(2410, delta=0.5, sigma=0.1)
    names = ("randomization", "compression")
    solutions = [solve(mechanism(name), constants, problem, [profile]) for name in names]
    show(constants, problem, solutions)
    text = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "C1 = 0.9, C2 = 1000, budget = 0.3" in text
    for solution in solutions:
        assert solution.value is not None
        assert f"{solution.value.value:.5g}" in text
        assert f"{solution.parameter.symbol}: " in text
    shared = "No guarantee: the budget lies below C1 = 0.9"
    assert text.count(shared) == 1, "what holds for both is said once"


def test_without_an_optimum_it_says_none(capsys: pytest.CaptureFixture[str]) -> None:
    constants, problem = Constants(0.9, 1.0), Problem(0.3)
    show(
        constants,
        problem,
        [solve(mechanism("compression"), constants, problem, [Profile(10)])],
    )
    cells = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["optimum", "γ*", "none"] in cells
    assert ["objective", "-"] in cells
