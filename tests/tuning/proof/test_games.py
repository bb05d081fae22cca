"""The best attacker there is, in whole trainings at certified settings: below the bound, and near.

Records with almost orthogonal gradients of equal length are the hardest to hide.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.accounting.sampled_training import Participation
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.claims import Claim
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.noise_for_budget import Proof
from trilemma.tuning.request import Request

pytestmark = pytest.mark.slow

GAMES, SIZE = 400, 21
UNLIKELY = 1e-6  # that a true bound is refuted


def scenario() -> Scenario:
    draw = torch.Generator().manual_seed(0)

    def data(size: int) -> TensorDataset:
        return TensorDataset(
            torch.randn(size, 40, generator=draw), torch.randint(0, 3, (size,), generator=draw)
        )

    local = LocalTraining(batch=4)
    clients = [data(80) for _ in range(3)]
    return Scenario(nn.Linear(40, 3), cross_entropy, clients, data(40), local, rounds=20)


@cache
def proof(participation: Participation) -> Proof:
    request = Request(knows="anyone", participation=participation, threshold=3, helpers=0)
    return Proof.of(Plan.of(scenario(), request), "secret-sharing")


def right_guesses(made: Proof, participation: Participation, share: float = 1.0) -> int:
    """Right guesses of the exact posterior, with this share of the noise that is proved."""
    work = JobRunner(scenario(), Claim(20, SIZE), 1, 2, 0)()
    variance = made.variance() * share
    found = 0
    for first in range(0, GAMES, 50):
        task = AttackJob(
            "games",
            f"randomization:variance={variance}+secret-sharing",
            ("exact-posterior",),
            Adversary.SERVER,
            20,
            first=first,
            count=50,
            recipe=made.recipe(scenario(), 20),
            participation=participation,
        )
        found += decode(work(task)).won("exact-posterior")
    return found


@pytest.mark.parametrize("participation", ["secret", "known"])
def test_the_exact_posterior_stays_below_the_bound_and_near(participation: Participation) -> None:
    made = proof(participation)
    bound, right = made.success(SIZE), right_guesses(made, participation)
    assert binom.sf(right - 1, GAMES, bound) > UNLIKELY
    assert right / GAMES > bound / 3


def test_whoever_is_told_the_rounds_breaks_the_bound_of_who_is_not() -> None:
    """So participation has to be secret indeed, which takes Poisson sampling."""
    made = proof("secret")
    right = right_guesses(made, "known")
    assert binom.sf(right - 1, GAMES, made.success(SIZE)) < UNLIKELY
    assert binom.sf(right - 1, GAMES, made.success(SIZE, "known")) > UNLIKELY


def test_noise_of_helpers_counted_as_honest_breaks_the_bound() -> None:
    """Two of three help and take their noise out: a third of it is left."""
    made = proof("known")
    right = right_guesses(made, "known", share=1 / 3)
    assert binom.sf(right - 1, GAMES, made.success(SIZE)) < UNLIKELY
