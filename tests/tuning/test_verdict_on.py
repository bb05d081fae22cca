"""Everything in one value: what was chosen, or that nothing was."""

from __future__ import annotations

from dataclasses import replace

from tests.cli.own_scenario import small
from tests.tuning.priced_candidates import candidate

from trilemma.protection.specs import parse_protection
from trilemma.tuning.choice.choose import Choice
from trilemma.tuning.families.game_counts import Counts
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.verdict import Beside, Verdict
from trilemma.tuning.tuning_run import verdict_on

CONTROL = Counts(24, {"gaussian-posterior": 23}, {}, 0)
NOISE = replace(
    candidate("randomization", 0.1), protection="randomization:variance=0.01", statement="Shown."
)
BESIDE = (Beside("a curious client", "is right in 2 of 16 games"),)


def told(*candidates: Candidate) -> Verdict:
    plan = Plan.of(small(), Request(attacks=("gaussian-posterior",), steps=2))
    choice = Choice(ranked(list(candidates)), CONTROL)
    return verdict_on(plan, choice, {"beside": BESIDE})


def test_the_first_in_rank_is_told() -> None:
    other = replace(NOISE, name="b", objective=None)
    found = told(other, NOISE)
    assert (found.chosen, found.statement, found.basis) == ("randomization", "Shown.", "measured")
    assert found.protection == parse_protection("randomization:variance=0.01")
    assert found.advice == ""
    assert found.attacks[0].control_recovered == 23
    assert found.attacks[0].effort.startswith("GaussianPosterior(")
    assert found.deployment.clients == 2
    assert {item.name for item in found.candidates} == {"b", "randomization"}


def test_further_results_go_by_their_field_and_what_was_not_measured_is_empty() -> None:
    found = told(NOISE)
    assert found.beside == BESIDE
    assert (found.curves, found.rounds, found.beliefs) == ((), (), ())


def test_where_nothing_was_chosen_there_is_advice() -> None:
    found = told(replace(NOISE, feasible=False, smallest_leakage=0.5))
    assert (found.chosen, found.protection, found.leakage) == (None, None, None)
    assert found.statement == "No protection was shown to keep the budget."
    assert found.advice


def test_a_candidates_own_deployment_is_told() -> None:
    usual = told(NOISE).deployment
    other = replace(usual, weighting="equal")
    assert told(replace(NOISE, deployment=other)).deployment == other
