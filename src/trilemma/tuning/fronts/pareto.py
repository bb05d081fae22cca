"""The measured front of three objectives, for who knows no weights: leakage, utility, efficiency.

Every point is a family at a strength: games played by the rung's leading attack, and trainings in
pairs with and without it. The front is an estimate, not a certificate: its points are picked by
the very numbers that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ConfigDict, TypeAdapter

from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.claims import Claim
from trilemma.observations import Adversary
from trilemma.tuning.choosing.advice import limits
from trilemma.tuning.fronts.front import hypervolume, knee, non_dominated
from trilemma.tuning.fronts.meter import Meter
from trilemma.tuning.fronts.points import RESOLUTION, Evaluated
from trilemma.tuning.fronts.study import SAMPLERS, SamplerName, Study
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.documents import Document
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.results.verdict import Federation
from trilemma.work.replay import settle

if TYPE_CHECKING:
    from trilemma.estimation.units import Source
    from trilemma.work.journal import Run
    from trilemma.work.progress import Ticker

__all__ = ["REFERENCE", "Front", "front_schema", "pareto"]

REFERENCE: Final = (1.0, 1.0, 1.0)
_ESTIMATE: Final = (
    "The front is an estimate, not a certificate: its points were picked by the numbers shown, "
    "and each interval holds for one point alone; tune shows that a budget is kept."
)
_ADVERSARY: Final = {
    Adversary.SERVER: "The server is the adversary: what a curious client gets is not measured.",
    Adversary.CLIENT: "A curious client is the adversary: what the server gets is not measured.",
}


@dataclass(frozen=True)
class Front:
    """All points that were measured, and which of them (by place) are on the front.

    `hypervolume` is that of the front's `Evaluated.objectives`, rounded to `resolution`, below
    `reference`; `knee` the place of the point of the front nearest to its utopia point, each
    objective scaled to the front's range. `reproduce` is the command that repeats it where no
    trilemma.toml is, empty from Python.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    limits: tuple[str, ...]
    points: tuple[Evaluated, ...]
    front: tuple[int, ...]
    knee: int
    hypervolume: float
    reference: tuple[float, ...]
    resolution: tuple[float, ...]
    sampler: SamplerName
    evaluations: int
    wanted: int
    request: Request
    claim: Claim
    attacks: tuple[str, ...]
    federation: Federation
    versions: dict[str, str]
    reproduce: str = ""
    schema_version: Literal[3] = 3

    def as_json(self) -> dict[str, Any]:
        """The front as plain values, the version first."""
        return _DOCUMENT.plain(self)

    def save(self, path: Path | str) -> None:
        """Write the front; the file is complete, or not there."""
        _DOCUMENT.write(self, path)

    @staticmethod
    def load(path: Path | str) -> Front:
        """The front in a file."""
        return _DOCUMENT.read(path)


_DOCUMENT: Final = Document(
    Front,
    "front",
    3,
    remedy="take the pareto.json that trilemma pareto wrote",
    upgrade="run the same trilemma pareto command again with --fresh --out {folder}",
)


def front_schema() -> dict[str, Any]:
    """The JSON Schema of pareto.json."""
    return _DOCUMENT.schema()


def pareto(
    source: Source,
    request: Request | None = None,
    *,
    evaluations: int = 32,
    units: int = 48,
    sampler: SamplerName = "grid",
    storage: str = "sqlite://",
    study: str = "trilemma",
    shared: bool = False,
    run: Run | None = None,
    data_key: bytes | None = None,
    workers: int = 1,
    ticker: Ticker | None = None,
    report: Callable[[Front], object] | None = None,
    **settings: Any,
) -> Front:
    """Measure (family, strength) pairs until the study holds `evaluations`; then the front.

    `report` gets every intermediate front: one may stop at any time. `shared` says that other
    machines use the `storage` too; then `evaluations` counts those of all of them.
    """
    asked = Request.of(request, settings)
    if sampler not in SAMPLERS:
        raise UnknownName("sampler", sampler, SAMPLERS)
    for name, value in (("evaluations", evaluations), ("units", units)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}.")
    plan = Plan.of(source, asked, run=run, data_key=data_key)
    made = {
        family.name: family
        for family in plan.families
        if family.deployable or asked.families is not None
    }
    if not made:
        raise InvalidInput("give at least one family, or leave families out for all of them.")
    meter = Meter(plan, units, asked.seeds)
    who = _ADVERSARY[asked.adversary]

    def front(points: Sequence[Evaluated], done: int) -> Front:
        objectives = [(place, each.objectives) for place, each in enumerate(points)]
        able = [(place, found) for place, found in objectives if found is not None]
        kept = [able[best] for best in non_dominated([found for _, found in able])]
        kept.sort(key=lambda each: each[1])  # of equally near points, the knee leaks least
        best = [found for _, found in kept]
        return Front(
            limits=(_ESTIMATE, *limits(None, plan.suite, asked, plan.claim)[:-1], who),
            points=tuple(points),
            front=tuple(place for place, _ in kept),
            knee=kept[knee(best)][0],
            hypervolume=hypervolume(best, REFERENCE),
            reference=REFERENCE,
            resolution=RESOLUTION,
            sampler=sampler,
            evaluations=done,
            wanted=evaluations,
            request=asked,
            claim=plan.claim,
            attacks=(plan.suite.lead,),
            federation=plan.federation,
            versions=versions(),
        )

    owner = run.key("study").hex()[:16] if run is not None and shared else None
    known: dict[tuple[str, int], bytes] = {}
    with (
        Study(
            storage,
            study,
            sampler=sampler,
            tuned=[family.name for family in made.values() if family.mechanism],
            untuned=[family.name for family in made.values() if not family.mechanism],
            seed=asked.seed,
            owner=owner,
        ) as trials,
        plan.crew(workers) as crew,
    ):
        start = settle({"none": meter.unprotected}, crew, run=run, ticker=ticker, known=known)[
            "none"
        ]
        while choices := trials.choices(evaluations, at_once=workers):
            found = settle(
                {each.name: meter.point(made[each.mechanism], each.strength) for each in choices},
                crew,
                run=run,
                ticker=ticker,
                known=known,
            )
            for each in choices:
                point = found[each.name]
                plain = _evaluated().dump_python(point, mode="json")
                trials.finish(each, plain, point.objectives)
            if report is not None:
                report(front(*_gathered(start, trials)))
        return front(*_gathered(start, trials))


def _gathered(start: Evaluated, trials: Study) -> tuple[list[Evaluated], int]:
    """The points of all machines, each place once: a mechanism without strength may recur."""
    results = trials.results()
    points = {(start.mechanism, start.strength): start}
    for each in map(_evaluated().validate_python, results):
        points.setdefault((each.mechanism, each.strength), each)
    return list(points.values()), len(results)


@cache
def _evaluated() -> TypeAdapter[Evaluated]:
    return TypeAdapter(Evaluated)
