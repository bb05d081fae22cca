"""The work that is expected is the work that a simulated tuning asks for, or nearly."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from tests.commands.own_scenario import small
from tests.tuning.simulating import Simulated, asking

from trilemma.estimation.bench import Bench
from trilemma.estimation.jobs import AttackJob, Job, TrainJob, read_attack, read_training
from trilemma.observations import Adversary
from trilemma.scenarios.tables import breast_cancer
from trilemma.tuning.forecasting.imagining import expected_work, forecast_of, guess_of
from trilemma.tuning.forecasting.kinds import Kind, amount_of, kind_of
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.telling import judged

FAMILIES = ("randomization", "randomization+secret-sharing", "secret-sharing")
LEAD = ("gaussian-posterior",)


def plan_of(**settings: object) -> Plan:
    asked = {"families": FAMILIES, "seeds": 2, "strengths": 2, "budget": 0.4} | settings
    return Plan.of(small(), Request(**asked))


def bench_of(plan: Plan) -> Simulated:
    """Attacks follow a law."""
    return Simulated(plan.source, None, 3, 20, 0, summed=0.9)


def asked_for(plan: Plan, done: list[Job] | None = None) -> Counter[Kind]:
    """What the tuning asks of a bench, each task once; `done` takes the tasks in their order."""
    done = [] if done is None else done
    ask = asking(bench_of(plan), done)
    judged(plan, lambda some, **_: {name: each(ask) for name, each in some.items()})
    found: Counter[Kind] = Counter()
    for task in {task.key(): task for task in done}.values():
        found[kind_of(task)] += amount_of(task)
    return found


def test_the_expected_work_is_near_that_of_a_tuning() -> None:
    plan = plan_of()
    expected, real = expected_work(plan), asked_for(plan)
    for name in plan.suite.attacks:
        control = Kind("games", (name,), 1, "plain")
        assert min(expected[control], real[control]) >= 16
    shared = {kind for kind in real if kind.carrier != "paillier"}
    assert shared <= set(expected) | {kind for kind in real if kind.rounds == 1}
    trainings = Kind("trainings", (), 60, "plain")
    assert expected[trainings] == pytest.approx(real[trainings], rel=0.3)
    whole = Kind("games", LEAD, 60, "plain")
    assert real[whole] / 2.5 < expected[whole] < 2.5 * real[whole]


def test_what_becomes_known_corrects_what_is_expected() -> None:
    """All of a tuning known, its own tasks are expected; half of it, nearly as many."""
    plan, done = plan_of(), list[Job]()
    real, work = asked_for(plan, done), bench_of(plan)()
    payloads = {task.key(): work(task) for task in done}
    assert expected_work(plan, known=payloads) == real
    half = dict(list(payloads.items())[: len(payloads) // 2])
    mixed = expected_work(plan, known=half)
    whole = Kind("games", LEAD, 60, "plain")
    before = abs(expected_work(plan)[whole] - real[whole])
    assert abs(mixed[whole] - real[whole]) <= before, "trainings pair with imagined ones"


@pytest.mark.parametrize("cohort", [None, 2])
def test_an_imagined_training_has_the_cohorts_of_the_real_one(cohort: int | None) -> None:
    scenario = replace(small(), cohort=cohort)
    task = TrainJob("none", 5, 4)
    guess = guess_of(Plan.of(scenario, Request(budget=0.4)), {})
    found = read_training(guess(task))
    real = read_training(Bench(scenario, None, 1, 1, 0)()(task))
    assert [each.clients for each in found.rounds] == [each.clients for each in real.rounds]
    assert found.metric is not None


def test_less_is_expected_of_a_quick_look() -> None:
    usual, quick = (
        expected_work(plan_of()),
        expected_work(Plan.of(small(), Request(preset="quick"))),
    )
    assert sum(quick.values()) < sum(usual.values())
    assert all(kind.rounds == 1 for kind in quick if kind.what == "games")


def test_every_claim_can_be_played_through() -> None:
    for settings in ({"knows": "rest"}, {"knows": "nothing"}, {"basis": "surrogate"}):
        plan = plan_of(**settings)
        assert forecast_of(plan).left() is None, "nothing was timed"
        assert sum(expected_work(plan).values()) > 30


def test_pictures_of_a_table_are_imagined_by_its_cells() -> None:
    plan = Plan.of(breast_cancer(clients=2), Request(preset="quick"))
    shown = sum(expected_work(plan, pictures=True).values())
    assert shown > sum(expected_work(plan).values())


def test_a_game_sees_as_many_rounds_as_its_client_shows_on_average() -> None:
    plan = plan_of()
    uneven = replace(plan.setting, records=(40, 400), clients=2, unit_size=4)
    timed = forecast_of(replace(plan, setting=uneven), speeds={Kind("games", LEAD, 1, "plain"): 1})
    views = 60 * (4 / 40 + 4 / 400) / 2
    assert timed.speed(Kind("games", LEAD, 60, "plain")) == pytest.approx(views)


def test_games_are_guessed_to_be_won_as_often_as_before() -> None:
    known: dict[tuple[str, int], bytes] = {}
    guess = guess_of(plan_of(), known)
    noise = "randomization:variance=1000000.0"
    job = AttackJob("walk", noise, LEAD, Adversary.SERVER, 60, first=8, count=8)
    assert sum(read_attack(guess(job))["correct"][LEAD[0]]) == 0, "so much noise hides all"
    earlier = {"correct": {LEAD[0]: [True, False, True, True]}}
    known[replace(job, first=4, count=4).key()] = json.dumps(earlier).encode()
    assert sum(read_attack(guess(job))["correct"][LEAD[0]]) == 6
