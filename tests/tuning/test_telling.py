"""A choice told in one value: what was chosen, or that nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.simulating import Simulated, asking

from trilemma.protections.specs import parse_protection
from trilemma.tuning.choosing.choice import Choice
from trilemma.tuning.estimates import certain_estimates
from trilemma.tuning.families.counts import Counts
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidates import Candidate
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.telling import judged, verdict_on
from trilemma.work.replay import Procedure, Then

CONTROL = Counts(24, {"gaussian-posterior": 23}, {}, 0)
NOISE = replace(
    candidate("randomization", 0.1), protection="randomization:variance=0.01", statement="Shown."
)


def told(monkeypatch: pytest.MonkeyPatch, *candidates: Candidate) -> Verdict:
    plan = Plan.of(small(), Request(attacks=("gaussian-posterior",), steps=2))

    def asides(*_: object) -> dict[str, Any]:
        return dict.fromkeys(("beside", "ladder", "curves", "rounds", "beliefs"), ())

    monkeypatch.setattr("trilemma.tuning.telling.measure_asides", asides)
    choice = Choice(ranked(list(candidates)), CONTROL, None, ())
    return verdict_on(plan, choice, lambda _, **__: {})


def test_the_first_in_rank_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(NOISE, name="b", objective=None)
    found = told(monkeypatch, other, NOISE)
    assert (found.chosen, found.statement, found.basis) == ("randomization", "Shown.", "measured")
    assert found.protection == parse_protection("randomization:variance=0.01")
    assert found.advice == ""
    assert found.attacks[0].control_recovered == 23
    assert found.attacks[0].effort.startswith("GaussianPosterior(")
    assert found.deployment.clients == 2
    assert {each.name for each in found.candidates} == {"b", "randomization"}


def test_where_nothing_was_chosen_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, replace(NOISE, feasible=False, smallest_leakage=0.5))
    assert (found.chosen, found.protection, found.leakage) == (None, None, None)
    assert found.statement == "No protection was shown to keep the budget."
    assert found.advice


def test_a_candidates_own_deployment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = told(monkeypatch, NOISE).deployment
    other = replace(usual, weighting="equal")
    assert told(monkeypatch, replace(NOISE, deployment=other)).deployment == other


def test_what_comes_whatever_is_chosen_is_said_before_the_choice() -> None:
    asked = Request(attacks=("gaussian-posterior",), steps=2, families=("randomization",))
    plan = Plan.of(small(), asked)
    ask = asking(Simulated(small, None, 1, 2, 0))
    heard: list[set[str]] = []

    def done(some: Mapping[str, Procedure], *, then: Then | None = None) -> dict[str, Any]:
        found = {name: each(ask) for name, each in some.items()}
        if then is not None:
            heard.extend(set(then(each)) for each in ({}, found))
        return found

    verdict = judged(plan, done)
    assert heard == [set(certain_estimates(plan, each)) for each in ((), verdict.candidates)], (
        "first of nothing, then of the candidates"
    )
    assert heard[0] < heard[1]
