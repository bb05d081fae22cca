from __future__ import annotations

import math

import pytest

from trilemma.errors import InvalidInput
from trilemma.tuning.problem import Problem


def test_objective_is_the_weighted_mean_over_clients() -> None:
    problem = Problem(0.3, utility_weight=(1.0, 2.0), efficiency_weight=0.5)
    by_hand = ((1 * 0.1 + 0.5 * 2.0) + (2 * 0.3 + 0.5 * 4.0)) / 2
    assert problem.objective([0.1, 0.3], [2.0, 4.0]) == pytest.approx(by_hand)


def test_the_constrained_variant_minimises_efficiency_alone() -> None:
    problem = Problem.constrained(0.3, max_utility_loss=0.02)
    assert problem.objective([0.5], [0.25]) == 0.25
    assert problem.max_utility_loss == 0.02


def test_bad_values_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="budget"):
        Problem(1.0)
    with pytest.raises(InvalidInput, match="utility_weight"):
        Problem(0.3, utility_weight=-1.0)
    with pytest.raises(InvalidInput, match="efficiency_weight"):
        Problem(0.3, efficiency_weight=(1.0, math.nan))
    with pytest.raises(InvalidInput, match="max_cost"):
        Problem(0.3, max_cost=math.nan)
    with pytest.raises(InvalidInput, match="2 entries for 3 clients"):
        Problem(0.3, utility_weight=(1.0, 1.0)).objective([0, 0, 0], [0, 0, 0])


def test_a_cap_names_what_exceeds_it() -> None:
    capped, what = Problem(0.3, max_utility_loss=0.1, max_cost=2.0), ("loss", "cost")
    assert capped.breach(0.1, 2.0, what) == ""
    assert "the loss of 0.11 exceeds the cap of 0.1" in capped.breach(0.11, 9, what)
    assert "the cost of 2.5 exceeds the cap of 2" in capped.breach(0, 2.5, what)
    assert Problem().breach(9, 9, what) == ""
