"""Pictures of what the attacks make of a few records, where the scenario shows them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trilemma.game.jobs import AttackJob
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.tuning.families.calibrator import control_jobs
from trilemma.tuning.proof.attacks_on_proof import recipe_of
from trilemma.tuning.results.gallery import GALLERY, RECORDS, Column, Gallery

if TYPE_CHECKING:
    from trilemma.execution.journal import Run
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.job_results import AttackResult, Pictures
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.gallery import Label, Picture

__all__ = ["gallery", "keep_gallery"]


def keep_gallery(made: Gallery | None, run: Run) -> None:
    """Have the run's folder hold this gallery, or none."""
    if made is not None:
        made.save(run.folder / GALLERY)
    else:
        (run.folder / GALLERY).unlink(missing_ok=True)  # of a scenario that showed records


def gallery(plan: Plan, chosen: Candidate | None) -> Procedure[Gallery | None]:
    """Pictures, or None where no records are shown, or nothing was chosen.

    Some games of the control, and as many at the verdict, with every attack of that knowledge.
    """
    if chosen is None or not plan.scenario.show_records:
        return None
    protection = parse_protection(chosen.protection or "none")
    asked = plan.request.adversary
    reads = protection.transport.server_reads
    hidden = asked is Adversary.SERVER and reads == "nothing"
    labelled: list[tuple[Label, AttackJob]] = [
        ("unprotected", job) for job in control_jobs(plan.suite)
    ]
    if not hidden and chosen.protection not in (None, "none"):
        labelled += [
            (
                "verdict",
                AttackJob(
                    stream="gallery, verdict",
                    protection=protection.describe(),
                    attacks=(name,),
                    adversary=asked,
                    rounds=chosen.rounds,
                    first=0,
                    count=RECORDS,
                    pictures=RECORDS,
                    recipe=recipe_of(chosen),
                ),
            )
            for name in (
                plan.suite.on(reads)
                if chosen.certificate is None
                else (plan.suite.lead,)  # searching for all records of all rounds takes too long
            )
        ]
    results: list[AttackResult] = yield [job for _, job in labelled]
    drawn = [
        (label, job, _of(result)) for (label, job), result in zip(labelled, results, strict=True)
    ]
    spec = plan.scenario.input_spec
    return Gallery(
        shape=_picture_shape(spec.shape),
        heads=tuple(plan.scenario.heads),
        low=spec.low,
        high=spec.high,
        target={label: _pictures(found.target) for label, _, found in drawn},
        columns=tuple(
            Column(
                label=label,
                protection=job.protection,
                attack=name,
                rounds=job.rounds,
                made=_pictures(column.made),
                guessed=_pictures(column.guessed),
                correct=tuple(column.correct),
            )
            for label, job, found in drawn
            for name, column in found.attacks.items()
        ),
    )


def _of(result: AttackResult) -> Pictures:
    assert result.pictures is not None, "they are asked for where the scenario shows records"
    return result.pictures


def _pictures(shown: list[list[Any]]) -> tuple[Picture, ...]:
    """Levels as they are, cells as pairs."""
    return tuple(
        tuple(tuple(item) if isinstance(item, list) else item for item in row) for row in shown
    )


def _picture_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Inputs as pictures [c, h, w]: a flat square as a square, what is no image as one line."""
    size = math.prod(shape)
    if len(shape) == 3 and shape[0] in (1, 3):
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    side = math.isqrt(size)
    return (1, side, side) if len(shape) == 1 and side**2 == size else (1, 1, size)
