"""What is shown of the choice: leakage against rounds, and the paper's leakage of beliefs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cli.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.simulating import Simulated, runner, simulate

from trilemma.accounting.noise_calibration import leakage_bound
from trilemma.accounting.sampled_training import Training
from trilemma.attacks.base import RUNGS
from trilemma.game.estimates import client_leakage
from trilemma.game.job_runner import Bench
from trilemma.game.jobs import AttackJob, BeliefJob, Job
from trilemma.game.playing.claims import checkpoints
from trilemma.tuning.calibration.outcomes import Tested
from trilemma.tuning.choice.shown_results import leakage_by_rounds, paper_leakage
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.tuning_run import tune

NOISE = replace(candidate("randomization", 0.1), protection="randomization:variance=0.001")
KEY = replace(candidate("paillier", 0.1), protection="paillier:mode=blind")
ATTACKS = ("gaussian-posterior",)
STEPS = list(checkpoints(small().rounds))


def rising(last: int) -> tuple[int, ...]:
    """Games won after each of the checkpoints, from none to so many."""
    return tuple(last * place // (len(STEPS) - 1) for place in range(len(STEPS)))


TESTED = tuple(
    Tested(attack, NOISE.strength, 50, 5, True, after=rising(5)) for attack in ("dlg", "map")
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.of(
        small(), Request(basis="measured", attacks=ATTACKS, steps=2, families=("randomization",))
    )


def test_the_same_games_are_picked_after_ever_more_rounds(plan: Plan) -> None:
    done: list[Job] = []
    found = runner(Simulated(small, None, 1, 2, 0), done)(leakage_by_rounds(plan, NOISE))
    assert {each.stream for each in done if isinstance(each, AttackJob)} == {"rounds"}
    for knows in RUNGS:
        points = [each for each in found if each.knows == knows]
        assert [each.rounds for each in points] == STEPS
        assert not any(each.certified for each in points)
        values = [each.leakage.value for each in points]
        assert values == sorted(values)
        assert values[0] < values[-1] or knows in ("nothing", "public"), "these have few games"


def test_who_reconstructs_is_shown_in_the_games_of_its_test(plan: Plan) -> None:
    """By the attack of the rung that won most at what was chosen; nothing more is played."""
    after = {"dlg": rising(2), "idlg": rising(5), "map": rising(8)}
    tests = tuple(Tested(name, 0.1, 50, won[-1], True, after=won) for name, won in after.items())
    early = Tested("map", 0.01, 50, 40, False, after=rising(40))
    done: list[Job] = []
    chosen = replace(NOISE, strength=0.1, tests=(early, *tests))
    ask = runner(Simulated(small, None, 1, 2, 0), done)
    found = ask(leakage_by_rounds(plan, chosen))
    for knows, won in (("nothing", after["idlg"]), ("public", after["map"])):
        drawn = [each.leakage for each in found if each.knows == knows]
        assert drawn == [plan.leakage(games, 50) for games in won]
    played = {each.attacks for each in done if isinstance(each, AttackJob)}
    assert played == {("gaussian-posterior", "exact-posterior")}


def test_a_tuning_shows_every_rung_and_plays_no_game_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate(monkeypatch)
    verdict = tune(small(), basis="measured", families=("randomization",), seeds=2, strengths=0)
    assert {each.knows for each in verdict.rounds} == set(RUNGS)
    chosen = verdict.choice
    assert chosen is not None
    for rung in ("nothing", "public"):
        last = [each.leakage for each in verdict.rounds if each.knows == rung][-1]
        assert last in [
            client_leakage(each.recovered, each.units, confidence=0.95, kappa=verdict.claim.kappa)
            for each in chosen.tests
        ]


def test_what_is_proved_stands_above_what_is_measured(plan: Plan) -> None:
    """Clipped records of Poisson batches under noise; z by hand, and real games below it."""
    clipped = plan.scenario.with_local_training(sampling="poisson", record_clip=0.5)
    made, ask = replace(plan, scenario=clipped), runner(Bench(clipped, None, 1, 2, 0))
    chosen = replace(NOISE, protection="randomization:variance=0.04", tests=TESTED)
    found = ask(leakage_by_rounds(made, chosen))
    q = clipped.local_training.batch / min(map(len, clipped.records))
    z, last = clipped.local_training.batch * 0.2 / 0.5, STEPS[-1]
    for who in ("known", "secret"):
        own = [each for each in found if each.participation == who]
        proved = {e.rounds: e.leakage.high for e in own if e.certified}
        (seen,) = (e.leakage for e in own if (e.knows, e.rounds) == ("rest", last))
        assert list(proved) == STEPS
        bound = leakage_bound(Training(last, q, z, who), made.claim.candidates)
        assert proved[last] == pytest.approx(bound, rel=5e-3)
        assert proved[last] >= bound, "arithmetic is allowed for"
        assert seen.low <= proved[last]


def test_poisson_sampling_has_a_curve_of_who_is_not_told_the_rounds(plan: Plan) -> None:
    poisson = plan.scenario.with_local_training(sampling="poisson")
    made, ask = replace(plan, scenario=poisson), runner(Bench(poisson, None, 1, 2, 0))
    found = ask(leakage_by_rounds(made, replace(NOISE, tests=TESTED)))
    ends = {(e.knows, e.participation): e.leakage for e in found if e.rounds == STEPS[-1]}
    assert list(ends)[-3:] == [("candidates", "known"), ("rest", "known"), ("rest", "secret")]
    assert ends["rest", "secret"].value <= ends["rest", "known"].high
    clipped = replace(NOISE, protection="randomization:variance=0.001,clip=1")
    for fixed, chosen in ((plan, NOISE), (made, clipped)):
        done: list[Job] = []
        simulated = runner(Simulated(small, None, 1, 2, 0), done)
        simulated(leakage_by_rounds(fixed, chosen))
        assert {each.participation for each in done if isinstance(each, AttackJob)} == {"known"}


def test_one_round_has_no_curve_and_a_key_shows_nothing(plan: Plan) -> None:
    ask = runner(Simulated(small, None, 1, 2, 0))
    alone = replace(plan, claim=replace(plan.claim, rounds=1))
    assert ask(leakage_by_rounds(alone, NOISE)) == ()
    assert ask(leakage_by_rounds(plan, KEY)) == ()
    assert ask(paper_leakage(plan, KEY)) == ()
    client = replace(plan, request=Request(adversary="client"))
    assert ask(leakage_by_rounds(client, KEY)), "a curious client opens the sum"


def test_the_papers_leakage_is_by_client(plan: Plan) -> None:
    done: list[Job] = []
    found = runner(Simulated(small, None, 1, 2, 0), done)(paper_leakage(plan, NOISE))
    asked = [each for each in done if isinstance(each, BeliefJob)]
    assert [(each.first, each.count) for each in asked] == [(at, 4) for at in (0, 4, 8, 12)]
    assert {each.attacks for each in asked} == {("gaussian-posterior", "exact-posterior")}
    assert [each.attack for each in found] == ["gaussian-posterior", "exact-posterior"]
    for each in found:
        assert each.mean == pytest.approx(np.mean([0.1, 0.2]))
        assert each.largest == pytest.approx(0.2)
        assert (each.games, each.draws) == (16, 6)


def test_beliefs_of_real_attacks_lie_between_nothing_and_all(plan: Plan) -> None:
    real = runner(Bench(small, None, 1, 2, 0))
    loud = replace(NOISE, protection="randomization:variance=1e6")
    quiet = replace(NOISE, protection="randomization:variance=1e-9")
    one = replace(plan, claim=replace(plan.claim, rounds=1))
    (silent, _), (told, _) = (real(paper_leakage(one, each)) for each in (loud, quiet))
    assert silent.mean < 0.05
    assert 0.8 < told.mean <= told.largest <= 1
