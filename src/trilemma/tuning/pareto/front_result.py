"""From measured points to a front: who is on it, its knee, and what it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trilemma.observations import Adversary
from trilemma.tuning.choice.advice import limits
from trilemma.tuning.pareto.front_geometry import hypervolume, knee, non_dominated
from trilemma.tuning.results.pareto_front import Front
from trilemma.tuning.results.points import RESOLUTION, Point
from trilemma.tuning.results.provenance import versions

if TYPE_CHECKING:
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.pareto_front import SamplerName

__all__ = ["REFERENCE", "front_of"]

REFERENCE: Final = (1.0, 1.0, 1.0)
_ESTIMATE: Final = (
    "The front is an estimate, not a certificate: its points were chosen by the numbers shown, "
    "and each interval holds for one point alone; tune shows that a budget is kept."
)
_ADVERSARY: Final = {
    Adversary.SERVER: "The server is the adversary: what a curious client gets is not measured.",
    Adversary.CLIENT: "A curious client is the adversary: what the server gets is not measured.",
}


def front_of(
    plan: Plan, start: Point, found: Sequence[Point], *, sampler: SamplerName, wanted: int
) -> Front:
    """The front of no protection and of what was found so far.

    Each place counts once: a family without strength may recur among the points of several
    machines.
    """
    places = {(start.family, start.place): start}
    for item in found:
        places.setdefault((item.family, item.place), item)
    points = list(places.values())
    objectives = [(place, point.objectives) for place, point in enumerate(points)]
    able = [(place, at) for place, at in objectives if at is not None]
    kept = [able[best] for best in non_dominated([at for _, at in able])]
    kept.sort(key=lambda pair: pair[1])  # of equally near points, the knee leaks least
    best = [at for _, at in kept]
    others = limits(plan, None)[:-1]
    return Front(
        limits=(_ESTIMATE, *others, _ADVERSARY[plan.request.adversary]),
        points=tuple(points),
        front=tuple(place for place, _ in kept),
        knee=kept[knee(best)][0],
        hypervolume=hypervolume(best, REFERENCE),
        reference=REFERENCE,
        resolution=RESOLUTION,
        sampler=sampler,
        evaluations=len(found),
        wanted=wanted,
        request=plan.request,
        claim=plan.claim,
        attacks=(plan.suite.lead,),
        federation=plan.federation,
        versions=versions(),
    )
