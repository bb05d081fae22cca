"""What is proved of leakage after 1 .. R rounds, to be drawn above what is measured.

Of a measured choice that is the bound of the very trainings that are attacked: all of a round's
clients survive, and only who attacks takes its own noise out. It holds where noise is all that
protects, records are clipped, and each joins a batch by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trilemma.accounting.noise_calibration import leakage_bound
from trilemma.accounting.noise_multiplier import Cohort
from trilemma.accounting.rounding import grid_remainder, range_for
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.errors import InvalidInput
from trilemma.game.estimates import Estimate
from trilemma.game.playing.claims import checkpoints
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.families.proof_conditions import check_scenario, unproved
from trilemma.tuning.proof.noise_for_budget import ARITHMETIC, FAILURE, NOISE_GRID
from trilemma.tuning.results.verdict import RoundsPoint

if TYPE_CHECKING:
    from trilemma.protection.protection import Protection
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["bounds_above", "proved_points", "refused_above"]


def proved_points(
    plan: Plan,
    training: Callable[[int, Participation], Training],
    participations: Sequence[Participation],
    remainder: float,
) -> list[RoundsPoint]:
    """The bound on a training after each of the claim's checkpoints, for its candidate set."""
    points = []
    for step in checkpoints(plan.claim.rounds):
        for who in participations:
            bound = leakage_bound(training(step, who), plan.claim.candidates, remainder=remainder)
            most = Estimate(bound, 0.0, bound)
            points.append(RoundsPoint("anyone", who, step, most, certified=True))
    return points


def bounds_above(plan: Plan, chosen: Candidate) -> list[RoundsPoint]:
    """What is proved of the trainings that a measured choice was tested in, if anything is."""
    own, protection = plan.scenario.local_training, parse_protection(chosen.protection or "none")
    if unproved(own, protection) or refused_above(plan, chosen):
        return []
    noise, remainder = _noise(plan, protection)
    q = 1.0 if own.sampling == "full" else own.batch / min(map(len, plan.scenario.records))
    return proved_points(
        plan, lambda step, who: Training(step, q, noise, who), ("secret", "known"), remainder
    )


def refused_above(plan: Plan, chosen: Candidate | None) -> tuple[str, ...]:
    """Why what noise, clip and sampling would prove is not: the model, the loss, the range."""
    if chosen is None or chosen.certificate is not None or plan.claim.rounds == 1:
        return ()
    protection = parse_protection(chosen.protection or "none")
    if unproved(plan.scenario.local_training, protection):
        return ()
    try:
        check_scenario(plan.scenario, by_record=True)
        _noise(plan, protection)
    except InvalidInput as error:
        return (f"Nothing is proved of what is measured: {error}",)
    return ()


def _noise(plan: Plan, protection: Protection) -> tuple[float, float]:
    """z, and what fixed point leaves unproved; raises where messages may leave their range."""
    scenario, server = plan.scenario, plan.request.adversary is Adversary.SERVER
    own, sizes, parameters = (
        scenario.local_training,
        [len(record) for record in scenario.records],
        scenario.task.layout.size,
    )
    clip, batch = (own.record_clip or math.inf) * (1 + ARITHMETIC), own.batch
    (added,) = protection.transforms
    assert isinstance(added, Randomization), "unproved() lets nothing else through"
    remainder, transport = 0.0, protection.transport
    if server and transport.server_reads == "messages":
        cohort = Cohort.alone(denominator=batch, record_clip=clip)
    else:
        cohort = Cohort(
            tuple(map(float, sizes)),
            (float(batch),) * len(sizes),
            clip,
            threshold=plan.deployment.threshold,
            helpers=0 if server else 1,
        )
        if transport.fixed is not None:
            rounds, messages = plan.claim.rounds, scenario.per_round
            remainder = FAILURE + grid_remainder(
                transport.step_size(),
                added.scale,
                messages=messages,
                coordinates=parameters,
                rounds=rounds,
            )
            reach = range_for(
                records=max(sizes),
                q=1.0 if own.sampling == "full" else batch / max(sizes),
                denominator=batch,
                record_clip=clip,
                deviation=added.scale,
                coordinates=parameters,
                rounds=rounds,
                failure=FAILURE / messages,
            )
            if reach > transport.fixed.clip:
                raise InvalidInput(
                    f"messages reach {reach:.3g}, beyond clip_range={transport.fixed.clip:g}; "
                    "raise it."
                )
    z = min(cohort.noise_multipliers(added.variance))
    return z / (1 + z * NOISE_GRID * math.sqrt(parameters)), remainder
