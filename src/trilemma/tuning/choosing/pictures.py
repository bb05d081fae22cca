"""Pictures of what the attacks make of a few records, where the scenario shows them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trilemma.estimation.jobs import AttackJob, read_attack
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.certificate.beside import recipe_of
from trilemma.tuning.results.gallery import GALLERY, RECORDS, Column, Gallery

if TYPE_CHECKING:
    from trilemma.tuning.choosing.choice import Done
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.tuning.results.gallery import Label, Picture
    from trilemma.work.journal import Run
    from trilemma.work.replay import Ask, Procedure

__all__ = ["gallery_procedure", "keep_gallery"]


def keep_gallery(plan: Plan, chosen: Candidate | None, run: Run, done: Done) -> None:
    """Have the run's folder hold the gallery of this choice, or none."""
    if plan.scenario.show_records and chosen is not None:
        made = done({"gallery": gallery_procedure(plan, chosen)})
        made["gallery"].save(run.folder / GALLERY)
    else:
        (run.folder / GALLERY).unlink(missing_ok=True)  # of a scenario that showed records


def gallery_procedure(plan: Plan, chosen: Candidate) -> Procedure:
    """Play a few games without protection and at the verdict, with every attack of the rung."""
    protection = parse_protection(chosen.protection or "none")
    asked = plan.request.adversary
    shown: list[tuple[Label, str, int]] = [("unprotected", "none", 1)]
    reads = protection.transport.server_reads
    hidden = asked is Adversary.SERVER and reads == "nothing"
    if not hidden and chosen.protection not in (None, "none"):
        shown.append(("verdict", protection.describe(), chosen.rounds))

    def make(ask: Ask) -> Gallery:
        tasks = [
            AttackJob(
                stream=f"gallery, {label}",
                protection=spec,
                attacks=plan.suite.on("message" if label == "unprotected" else reads),
                adversary=asked,
                rounds=rounds,
                first=0,
                count=RECORDS,
                pictures=RECORDS,
                recipe=recipe_of(chosen) if label == "verdict" else None,
            )
            for label, spec, rounds in shown
        ]
        payloads = [read_attack(payload)["pictures"] for payload in ask(tasks)]
        spec = plan.scenario.input_spec
        return Gallery(
            shape=_picture_shape(spec.shape),
            heads=tuple(plan.scenario.heads),
            low=spec.low,
            high=spec.high,
            tagged={
                each[0]: _pictures(found["tagged"])
                for each, found in zip(shown, payloads, strict=True)
            },
            columns=tuple(
                Column(
                    label=label,
                    protection=described,
                    attack=name,
                    rounds=rounds,
                    made=_pictures(column["made"]),
                    picked=_pictures(column["picked"]),
                    correct=tuple(column["correct"]),
                )
                for (label, described, rounds), found in zip(shown, payloads, strict=True)
                for name, column in found["attacks"].items()
            ),
        )

    return make


def _pictures(shown: list[list[Any]]) -> tuple[Picture, ...]:
    """Levels as they are, cells as pairs."""
    return tuple(
        tuple(tuple(each) if isinstance(each, list) else each for each in row) for row in shown
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
