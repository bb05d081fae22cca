"""What is shown of the choice: leakage against rounds, and the paper's leakage of beliefs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.cli.own_scenario import small
from tests.tuning.priced_candidates import candidate
from tests.tuning.simulating import Simulated, runner, simulate

from trilemma.accounting.noise_calibration import leakage_bound
from trilemma.accounting.sampled_training import Training
from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, BeliefJob, Job
from trilemma.game.playing.claims import checkpoints
from trilemma.tuning.calibration.outcomes import Tested
from trilemma.tuning.choice.advice import contradictions
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
    assert {item.stream for item in done if isinstance(item, AttackJob)} == {"rounds"}
    for knows in KNOWLEDGE_LEVELS:
        points = [item for item in found if item.knows == knows]
        assert [point.rounds for point in points] == STEPS
        assert not any(point.certified for point in points)
        values = [point.leakage.value for point in points]
        assert values == sorted(values)
        assert values[0] < values[-1] or knows in ("nothing", "public"), "these have few games"


class Contradictory(Simulated):
    """Who reconstructs always wins; who knows the candidates or more never does."""

    def rate(self, attack: str, *others: object) -> float:
        return float(not attack.endswith("posterior"))


def test_who_knows_more_leaks_no_less_and_the_proof_is_on_top(plan: Plan) -> None:
    for job_runner in (Simulated(small, None, 1, 2, 0), Contradictory(small, None, 1, 2, 0)):
        found = runner(job_runner)(leakage_by_rounds(plan, NOISE))
        for end in ("value", "low", "high"):
            table = np.array(
                [
                    [getattr(item.leakage, end) for item in found if item.knows == knows]
                    for knows in KNOWLEDGE_LEVELS
                ]
            )
            assert (np.diff(table, axis=0) >= -1e-12).all(), "by knowledge"
            assert (np.diff(table, axis=1) >= -1e-12).all(), "by rounds"
        apart = [item for item in found if item.crossed]
        assert all(item.leakage.low > item.leakage.high for item in apart)
        assert bool(apart) == isinstance(job_runner, Contradictory)
        (said,) = contradictions(found) or ("",)
        assert said.startswith("Results contradict one another: after ") == bool(apart)
        assert f", {STEPS[-1]} rounds" in said or not apart


def test_intervals_are_those_of_all_points_at_once(plan: Plan) -> None:
    """By scipy: of who reconstructs after all rounds, and of who knows more and never wins."""
    done: list[Job] = []
    found = runner(Contradictory(small, None, 1, 2, 0), done)(leakage_by_rounds(plan, NOISE))
    (last,) = (e for e in found if (e.knows, e.rounds) == ("public", STEPS[-1]))
    cells = len(KNOWLEDGE_LEVELS) * len(STEPS)
    sure = binomtest(24, 24).proportion_ci(1 - 0.05 / cells, method="exact")
    assert last.leakage.low == pytest.approx(bernoulli_leakage(sure.low, plan.claim.kappa))
    never = binomtest(0, 48).proportion_ci(1 - 0.05 / cells, method="exact")
    assert last.leakage.high == pytest.approx(bernoulli_leakage(never.high, plan.claim.kappa))


def test_what_is_shown_are_games_of_its_own(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Those of a test that passed are known to be few, whatever the rate."""
    done: list[Job] = []
    ask = runner(Simulated(small, None, 1, 2, 0), done)
    assert ask(leakage_by_rounds(plan, replace(NOISE, tests=TESTED))) == ask(
        leakage_by_rounds(plan, NOISE)
    )
    assert {item.stream for item in done if isinstance(item, AttackJob)} == {"rounds"}
    simulate(monkeypatch)
    verdict = tune(small(), basis="measured", families=("randomization",), seeds=2, strengths=0)
    assert {item.knows for item in verdict.rounds} == set(KNOWLEDGE_LEVELS)


def test_what_is_proved_stands_above_what_is_measured(plan: Plan) -> None:
    """Clipped records of Poisson batches under noise; z by hand, and real games below it."""
    clipped = plan.scenario.with_local_training(sampling="poisson", record_clip=0.5)
    made, ask = replace(plan, scenario=clipped), runner(JobRunner(clipped, None, 1, 2, 0))
    chosen = replace(NOISE, protection="randomization:variance=0.04", tests=TESTED)
    found = ask(leakage_by_rounds(made, chosen))
    q = clipped.local_training.batch / min(map(len, clipped.records))
    z, last = clipped.local_training.batch * 0.2 / 0.5, STEPS[-1]
    for who in ("known", "secret"):
        own = [item for item in found if item.participation == who]
        proved = {e.rounds: e.leakage.high for e in own if e.certified}
        (seen,) = (e.leakage for e in own if (e.knows, e.rounds) == ("rest", last))
        assert list(proved) == STEPS
        bound = leakage_bound(Training(last, q, z, who), made.claim.candidates)
        assert proved[last] == pytest.approx(bound, rel=5e-3)
        assert proved[last] >= bound, "arithmetic is allowed for"
        assert seen.low <= proved[last]


def test_poisson_sampling_has_a_curve_of_who_is_not_told_the_rounds(plan: Plan) -> None:
    poisson = plan.scenario.with_local_training(sampling="poisson")
    made, ask = replace(plan, scenario=poisson), runner(JobRunner(poisson, None, 1, 2, 0))
    found = ask(leakage_by_rounds(made, replace(NOISE, tests=TESTED)))
    ends = {(e.knows, e.participation): e.leakage for e in found if e.rounds == STEPS[-1]}
    assert list(ends)[-3:] == [("candidates", "known"), ("rest", "known"), ("rest", "secret")]
    assert ends["rest", "secret"].value <= ends["rest", "known"].high
    clipped = replace(NOISE, protection="randomization:variance=0.001,clip=1")
    for fixed, chosen in ((plan, NOISE), (made, clipped)):
        done: list[Job] = []
        simulated = runner(Simulated(small, None, 1, 2, 0), done)
        simulated(leakage_by_rounds(fixed, chosen))
        assert {item.participation for item in done if isinstance(item, AttackJob)} == {"known"}


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
    asked = [item for item in done if isinstance(item, BeliefJob)]
    assert [(item.first, item.count) for item in asked] == [(at, 4) for at in (0, 4, 8, 12)]
    assert {item.attacks for item in asked} == {("gaussian-posterior", "exact-posterior")}
    assert [item.attack for item in found] == ["gaussian-posterior", "exact-posterior"]
    for item in found:
        assert item.mean == pytest.approx(np.mean([0.1, 0.2]))
        assert item.largest == pytest.approx(0.2)
        assert (item.games, item.draws) == (16, 6)


def test_beliefs_of_real_attacks_lie_between_nothing_and_all(plan: Plan) -> None:
    real = runner(JobRunner(small, None, 1, 2, 0))
    loud = replace(NOISE, protection="randomization:variance=1e6")
    quiet = replace(NOISE, protection="randomization:variance=1e-9")
    one = replace(plan, claim=replace(plan.claim, rounds=1))
    (silent, _), (told, _) = (real(paper_leakage(one, value)) for value in (loud, quiet))
    assert silent.mean < 0.05
    assert 0.8 < told.mean <= told.largest <= 1
