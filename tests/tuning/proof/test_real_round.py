"""The certified protection through the real sessions of secret sharing, on the digits."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from scipy.stats import chi2
from tests.federation.small import cohorts_of

from trilemma.entropy import Seeded, System
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied
from trilemma.learning import client_update
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.scenarios import load_scenario
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.noise_for_budget import Proof
from trilemma.tuning.request import Request

pytestmark = pytest.mark.slow

UNLIKELY = 1e-9


@cache
def certified() -> tuple[Plan, Proof]:
    """Ten clients, threshold 7, one curious client tolerated, 150 rounds, every candidate set."""
    plan = Plan.of(load_scenario("digits"), Request(knows="anyone", helpers=1))
    return plan, Proof.of(plan, "secret-sharing")


def updates_of(plan: Plan, proof: Proof, number: int) -> list[torch.Tensor]:
    scenario = applied(proof.recipe(plan.scenario, 150), plan.scenario)
    cohorts, sending = cohorts_of(scenario, 10, seed=0)
    return list(sending.updates(fresh_weights(scenario, [0])[0], *cohorts.rows(number, range(10))))


def within(squares: float, variance: float, count: int) -> bool:
    """Whether a sum of squares of so many normals has this variance; errs twice in 10⁹."""
    low, high = (float(chi2.ppf(end, count)) for end in (UNLIKELY, 1 - UNLIKELY))
    return low <= squares / variance <= high


@pytest.mark.parametrize("entropy", [Seeded(5), System()])
@pytest.mark.parametrize("dropped", [0, 3])
def test_survivors_leave_the_noise_that_was_proved(entropy: Seeded | System, dropped: int) -> None:
    plan, proof = certified()
    protection = proof.protection()
    (noise,) = protection.transforms
    assert isinstance(noise, Randomization)
    carrier = protection.transport
    assert isinstance(carrier, SecretSharing)
    updates = updates_of(plan, proof, dropped)
    info = RoundInfo.new(range(10), Seeded(1), number=dropped, threshold=proof.threshold)
    assert info.threshold == 7
    lost = dict.fromkeys(range(10 - dropped, 10), 2)  # after keys and shares
    result = run_round(protection, updates, None, info, entropy=entropy, drops=lost, curious=0)
    released = result.transcript.released
    survivors = len(released.clients)
    assert survivors == 10 - dropped
    # What is left of the sum when the clean updates are taken out: all survivors' noise.
    clean = torch.stack([updates[k] for k in released.clients]).double().sum(0)
    left = survivors * result.mean.double() - clean
    count = left.numel()
    assert within(float(left.square().sum()), survivors * noise.variance, count)
    # A curious client takes its own noise out; at least t - 1 honest ones remain.
    sent = result.transcript.own
    assert sent is not None
    own = sent.values.double() - updates[0].double()
    honest = left - own
    assert within(float(honest.square().sum()), (survivors - 1) * noise.variance, count)
    least = math.sqrt((proof.threshold - 1) * noise.variance)
    assert 150 * least / proof.clip >= proof.training.noise_multiplier
    # Range and grid: nothing was refused, and the largest message is far inside.
    assert carrier.step_size() <= noise.scale / 3
    largest = max(float(update.abs().max()) for update in updates) + 7 * noise.scale
    assert largest < carrier.clip_range


def test_one_record_moves_an_update_by_at_most_its_clip() -> None:
    plan, proof = certified()
    scenario = applied(proof.recipe(plan.scenario, 150), plan.scenario)
    weights = fresh_weights(scenario, [0])[0]
    records, local = scenario.records[0], scenario.local_training
    inputs, labels = records.inputs[:6], records.labels[:6]
    whole = torch.ones(6)
    made = client_update(scenario.task, weights, inputs, labels, local, whole)
    for row in range(6):
        without = whole.clone()
        without[row] = 0.0
        less = client_update(scenario.task, weights, inputs, labels, local, without)
        assert float((made - less).norm()) <= proof.clip / 150 * (1 + 1e-5)
