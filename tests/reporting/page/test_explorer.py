"""What the explorer starts from; tests/browser/test_explorer.py watches it recommend."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from tests.reporting import examples

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.reporting.page.explorer import Explorer, Preference
from trilemma.reporting.page.sections import front_explorer, verdict_explorer
from trilemma.tuning.problem import Problem

START = Preference(0.3, 1.0, 0.01)


def test_the_sliders_can_halt_at_the_start() -> None:
    own = Preference.of(Problem(0.1234, (1.0, 2.0, 3.0), 0.015))
    assert own == Preference(0.1234, 2.0, 0.015)
    for name, stops in Explorer((), examples.CLAIM, own).stops.items():
        assert getattr(own, name) in stops
        assert [key for key, _ in groupby(stops)] == stops == sorted(stops)


@pytest.mark.parametrize("rounds", [1, 150])
def test_what_thins_is_barred_from_a_training(rounds: int) -> None:
    """It is measured for one round, so that no training may rest on it."""
    claim = replace(examples.CLAIM, rounds=rounds)
    verdict = examples.verdict(claim=claim, curves=examples.curves(units=300))
    for explorer in (verdict_explorer(verdict), front_explorer(examples.front(claim=claim))):
        assert ("compression" in explorer.barred) == (rounds > 1)
        assert "bounded-masks" in explorer.barred
        assert "randomization" not in explorer.barred


@pytest.mark.parametrize(("candidates", "rate"), [(20, 0.308), (38, 0.258), (100, 0.212)])
def test_what_a_budget_allows_depends_on_the_candidate_set(candidates: int, rate: float) -> None:
    claim = replace(examples.CLAIM, candidates=candidates)
    found = Explorer((), claim, START).allowed(START.budget)
    assert found == pytest.approx(rate, abs=5e-4)
    assert START.budget - 2e-3 <= bernoulli_leakage(found, 1 / candidates) <= START.budget + 1e-9
