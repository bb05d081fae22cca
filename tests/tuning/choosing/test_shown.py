"""What is shown of the choice: leakage against rounds, and the paper's leakage of beliefs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.simulating import Simulated, asking

from trilemma.estimation.bench import Bench
from trilemma.estimation.jobs import AttackJob, BeliefJob, Job
from trilemma.tuning.choosing.shown import shown_procedures
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

NOISE = replace(candidate("randomization", 0.1), protection="randomization:variance=0.001")
KEY = replace(candidate("paillier", 0.1), protection="paillier:mode=blind")
ATTACKS = ("gaussian-posterior",)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.of(small(), Request(attacks=ATTACKS, steps=2, families=("randomization",)))


def test_the_same_games_are_picked_after_ever_more_rounds(plan: Plan) -> None:
    done: list[Job] = []
    found = shown_procedures(plan, NOISE)["rounds"](asking(Simulated(small, None, 1, 2, 0), done))
    assert {each.stream for each in done if isinstance(each, AttackJob)} == {"rounds"}
    for knows in ("candidates", "rest"):
        points = [each for each in found if each.knows == knows]
        assert [each.rounds for each in points] == [1, 2, 5, 12, 26, 60]
        assert not any(each.certified for each in points)
        values = [each.leakage.value for each in points]
        assert values == sorted(values)
        assert values[0] < values[-1]


def test_poisson_sampling_has_a_curve_of_who_is_not_told_the_rounds(plan: Plan) -> None:
    poisson = plan.scenario.with_local_training(sampling="poisson")
    made, ask = replace(plan, scenario=poisson), asking(Bench(poisson, None, 1, 2, 0))
    found = shown_procedures(made, NOISE)["rounds"](ask)
    ends = {(e.knows, e.participation): e.leakage for e in found if e.rounds == 60}
    assert list(ends) == [("candidates", "known"), ("rest", "known"), ("rest", "secret")]
    assert ends["rest", "secret"].value <= ends["rest", "known"].high
    clipped = replace(NOISE, protection="randomization:variance=0.001,clip=1")
    for fixed, chosen in ((plan, NOISE), (made, clipped)):
        done: list[Job] = []
        simulated = asking(Simulated(small, None, 1, 2, 0), done)
        shown_procedures(fixed, chosen)["rounds"](simulated)
        assert {each.participation for each in done if isinstance(each, AttackJob)} == {"known"}


def test_one_round_has_no_curve_and_a_key_shows_nothing(plan: Plan) -> None:
    ask = asking(Simulated(small, None, 1, 2, 0))
    alone = replace(plan, claim=replace(plan.claim, rounds=1))
    assert shown_procedures(alone, NOISE)["rounds"](ask) == ()
    assert shown_procedures(plan, KEY)["rounds"](ask) == ()
    assert shown_procedures(plan, KEY)["beliefs"](ask) == ()
    client = replace(plan, request=Request(adversary="client"))
    assert shown_procedures(client, KEY)["rounds"](ask), "a curious client opens the sum"


def test_the_papers_leakage_is_by_client(plan: Plan) -> None:
    done: list[Job] = []
    found = shown_procedures(plan, NOISE)["beliefs"](asking(Simulated(small, None, 1, 2, 0), done))
    assert [each.attack for each in done if isinstance(each, BeliefJob)] == [
        "gaussian-posterior",
        "exact-posterior",
    ]
    for each in found:
        assert each.mean == pytest.approx(np.mean([0.1, 0.2]))
        assert each.largest == pytest.approx(0.2)
        assert (each.games, each.draws) == (16, 6)


def test_beliefs_of_real_attacks_lie_between_nothing_and_all(plan: Plan) -> None:
    real = asking(Bench(small, None, 1, 2, 0))
    loud = replace(NOISE, protection="randomization:variance=1e6")
    quiet = replace(NOISE, protection="randomization:variance=1e-9")
    one = replace(plan, claim=replace(plan.claim, rounds=1))
    (silent, _), (told, _) = (
        shown_procedures(one, each)["beliefs"](real) for each in (loud, quiet)
    )
    assert silent.mean < 0.05
    assert 0.8 < told.mean <= told.largest <= 1
