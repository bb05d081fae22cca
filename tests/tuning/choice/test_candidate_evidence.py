"""From evidence to a candidate: what its statement, its leakage and its clients rest on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import beta
from tests.cli.own_scenario import small
from tests.tuning.priced_candidates import pricing
from tests.tuning.simulating import Simulated, answered, runner
from tests.tuning.small_families import CLAIM, P_MAX, family

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.errors import InvalidInput
from trilemma.game.job_results import AttackResult, Result, decode
from trilemma.game.jobs import AttackJob, Job
from trilemma.game.playing.suite import Suite
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.tuning.choice.candidate_evidence import measured_candidate, worst_client_of
from trilemma.tuning.families.calibrator import Calibrator
from trilemma.tuning.families.family import Family
from trilemma.tuning.families.game_counts import Counts
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.results.candidate import Candidate

KAPPA = CLAIM.kappa


def calibrator(rounds: int = 1) -> Calibrator:
    suite = Suite("candidates", ("gaussian-posterior", "analytic"))
    return Calibrator(suite, Adversary.SERVER, rounds, P_MAX, 0.05)


def measured(
    name: str,
    rounds: int = 1,
    done: list[Job] | None = None,
    bare: Family | None = None,
    **distributions: Any,
) -> Candidate:
    made = replace(calibrator(rounds), bare=bare)
    run = runner(Simulated(small, None, 1, 2, 0, **distributions), done)
    return run(measured_candidate(made, family(name), pricing(), KAPPA))


def test_a_strength_that_every_attack_passes_is_feasible() -> None:
    found = measured("randomization")
    assert (found.feasible, found.basis, found.symbol) == (True, "measured", "noise variance")
    assert found.statement.startswith(f"Noise variance {found.strength:.3g}: every attack")
    assert found.success is not None
    assert found.leakage is not None
    assert found.leakage.value == bernoulli_leakage(found.success.value, KAPPA)
    assert found.leakage.high == bernoulli_leakage(found.success.high, KAPPA)
    done: list[Job] = []
    assert measured("randomization", done=done) == found
    games = [
        value for value in {*done} if isinstance(value, AttackJob) and value.stream != "control"
    ]
    assert found.units == sum(item.count * len(item.attacks) for item in games)
    assert found.objective is not None


def test_a_candidate_whose_fresh_games_contradict_its_tests_is_withdrawn() -> None:
    """Tests that pass by luck, and then games that are won too often to be within p_max."""
    work = Simulated(small, None, 1, 2, 0)()

    def result(job: Job) -> Result:
        found: Result = decode(work(job))
        if isinstance(job, AttackJob) and job.stream.endswith("again"):
            assert isinstance(found, AttackResult)
            return replace(found, correct={name: [True] * job.count for name in job.attacks})
        return found

    asked = measured_candidate(calibrator(), family("randomization"), pricing(), KAPPA)
    found = answered(asked, lambda jobs: [result(job) for job in jobs])
    assert not found.feasible
    assert found.statement.startswith("Withdrawn: every attack passed its test, but in 100 fresh")
    assert found.success is not None
    assert found.success.value == 1.0, "shown whatever it says"
    assert (found.fresh, found.fresh_right) == (100, 100)
    assert not found.breaks_a_cap
    assert ranked([found])[0].rank is None


def test_a_bare_sum_that_fails_says_by_which_attack() -> None:
    found = measured("secret-sharing", summed=0.9)
    assert (found.feasible, found.protection, found.leakage) == (False, None, None)
    assert "guessed the right record in" in found.statement
    assert "too many to show a rate of at most 0.212" in found.statement
    assert found.costs is None


def test_a_bare_sum_that_passes() -> None:
    found = measured("secret-sharing")
    assert found.feasible
    assert found.statement.startswith("The bare sum of all clients: every attack")
    assert found.strength is None


@pytest.mark.parametrize("carrier", ["secret-sharing", "paillier"])
def test_noise_that_a_sum_does_not_need_is_told_as_the_bare_sum(carrier: str) -> None:
    found = measured(f"randomization+{carrier}", bare=family("secret-sharing"))
    assert found.feasible
    assert found.statement.startswith("The bare sum of all clients: every attack")
    assert (found.protection or "").startswith(carrier)
    assert found.strength is None


@pytest.mark.parametrize("name", ["compression", "compression+randomization"])
def test_what_thins_is_for_one_round_only(name: str) -> None:
    alone, whole = measured(name, rounds=1), measured(name, rounds=8)
    assert alone.feasible
    assert "one round only" not in alone.statement
    assert (whole.feasible, whole.rounds) == (False, 1)
    assert whole.statement.endswith("so it cannot be chosen for a whole training.")
    assert whole.statement.startswith("Estimated for one round only")
    assert not whole.tests, "what cannot be chosen is not tested"
    assert whole.leakage is not None
    assert whole.costs is not None


def test_a_protection_that_cannot_be_run_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Family, x: float) -> Protection:
        raise InvalidInput("noise is below the grid.")

    monkeypatch.setattr(Family, "protection", refuse)
    found = measured("randomization")
    assert (found.feasible, found.statement) == (False, "Cannot be run: noise is below the grid.")
    assert found.points, "what was seen is kept"


def test_a_training_that_diverges_is_a_row() -> None:
    found = measured("randomization", diverging=("randomization",))
    assert not found.feasible
    assert found.objective is None
    assert found.statement.endswith("diverged.")


def test_a_key_is_told_with_its_length() -> None:
    found = measured("paillier", rounds=8)
    assert (found.basis, found.feasible, found.rounds) == ("cryptographic", True, 8)
    assert "a key of 3072 bits" in found.statement
    assert (found.leakage, found.units) == (None, 0)


def test_the_worst_client_has_enough_games_and_limits_for_all_at_once() -> None:
    clients = {0: (40, 4), 1: (20, 6), 2: (19, 19)}
    worst, leakiest, few = worst_client_of(Counts(79, {"a": 29}, clients, 0), 0.95, KAPPA)
    assert leakiest == 1
    assert few == 1, "client 2 has too few games for limits of its own"
    assert worst is not None
    assert worst.value == bernoulli_leakage(6 / 20, KAPPA)
    tail = 0.05 / 2 / 2  # two clients, two sides
    assert worst.high == pytest.approx(bernoulli_leakage(beta.isf(tail, 7, 14), KAPPA))
    assert worst_client_of(Counts(10, {"a": 1}, {0: (10, 1)}, 0), 0.95, KAPPA) == (None, None, 1)
