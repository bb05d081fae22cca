"""What is proved of trainings that are measured, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.cli.own_scenario import small
from tests.tuning.priced_candidates import candidate

from trilemma.accounting.noise_calibration import leakage_bound
from trilemma.accounting.sampled_training import Training
from trilemma.observations import Adversary
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.bounds_by_rounds import bounds_above, refused_above
from trilemma.tuning.request import Request

CLIP, VARIANCE = 0.5, 0.04


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = Plan.of(small(), Request(attacks=("dlg",), steps=2, families=("randomization",)))
    clipped = made.scenario.with_local_training(sampling="poisson", record_clip=CLIP)
    return replace(made, scenario=clipped)


def last(plan: Plan, spec: str, who: str = "known") -> float | None:
    chosen = replace(candidate("randomization", 0.1), protection=spec)
    found = [bound for bound in bounds_above(plan, chosen) if bound.participation == who]
    return found[-1].leakage.high if found else None


def refused(plan: Plan, spec: str) -> tuple[str, ...]:
    return refused_above(plan, replace(candidate("randomization", 0.1), protection=spec))


def by_hand(plan: Plan, powers: float) -> float:
    """The bound at z = S √(Σ w² v) / (w C) of the client with the largest weight."""
    own, sizes = plan.scenario.local_training, [len(record) for record in plan.scenario.records]
    z = own.batch * math.sqrt(powers * VARIANCE) / CLIP
    training = Training(plan.claim.rounds, own.batch / min(sizes), z, "known")
    return leakage_bound(training, plan.claim.candidates)


@pytest.mark.parametrize(
    ("spec", "adversary", "clients"),
    [
        (f"randomization:variance={VARIANCE}", Adversary.SERVER, 1),
        (f"randomization:variance={VARIANCE}", Adversary.CLIENT, 1),
        (f"randomization:variance={VARIANCE}+secret-sharing:clip_range=16", Adversary.SERVER, 2),
    ],
)
def test_only_noise_that_the_attacker_does_not_know_counts(
    plan: Plan, spec: str, adversary: Adversary, clients: int
) -> None:
    """Two clients of equal weight: the server sees a message or the sum, a client its own."""
    assert len({len(record) for record in plan.scenario.records}) == 1
    found = last(replace(plan, request=Request(adversary=adversary)), spec)
    assert found is not None
    assert found == pytest.approx(by_hand(plan, clients), rel=5e-3)
    assert found >= by_hand(plan, clients), "arithmetic and fixed point are allowed for"


def test_nothing_is_proved_where_a_condition_fails(plan: Plan) -> None:
    spec = f"randomization:variance={VARIANCE}"
    own = plan.scenario
    for changed in ({"sampling": "fixed"}, {"record_clip": None}):
        assert last(replace(plan, scenario=own.with_local_training(**changed)), spec) is None
    assert last(plan, "compression:keep=0.5") is None
    assert last(plan, f"{spec},clip=1") is None
    narrow = f"{spec}+secret-sharing:clip_range=0.5"
    assert last(plan, narrow) is None, "messages go beyond it"
    (said,) = refused(plan, narrow)
    assert said.startswith("Nothing is proved of what is measured: messages reach")
    assert said.endswith("beyond clip_range=0.5; raise it.")
    assert not refused(plan, spec)
    assert not refused(plan, "compression:keep=0.5"), "told in other words"
