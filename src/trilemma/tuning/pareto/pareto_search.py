"""The measured front of three objectives, for who knows no weights: leakage, utility, efficiency.

Every point is a family at a strength: games played by the leading attack, and trainings in
pairs with and without it. The front is an estimate, not a certificate: its points are chosen by
the very numbers that are shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from trilemma.errors import InvalidInput, UnknownName
from trilemma.execution.scheduler import Scheduler
from trilemma.game.job_results import decode
from trilemma.game.scenario_identity import own_code, scenario_identity
from trilemma.quantities import counted
from trilemma.tuning.pareto.front_result import front_of
from trilemma.tuning.pareto.point_evaluator import PointEvaluator
from trilemma.tuning.pareto.study import SAMPLERS, Study
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import NOT_OF_A_FRONT, Request

if TYPE_CHECKING:
    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.game.scenario import Source
    from trilemma.tuning.results.pareto_front import Front, SamplerName

__all__ = ["pareto"]


def pareto(
    source: Source,
    request: Request | None = None,
    *,
    evaluations: int = 32,
    units: int = 48,
    sampler: SamplerName = "grid",
    storage: str = "sqlite://",
    shared: bool = False,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
    report: Callable[[Front], object] | None = None,
    **settings: Any,
) -> Front:
    """Measure (family, strength) pairs until the study holds `evaluations`; then the front.

    `report` gets every intermediate front: one may stop at any time. `shared` says that other
    machines use the `storage` too; then `evaluations` counts those of all of them. They share a
    study where scenario, settings and code are the same.
    """
    asked = Request.of(request, settings)
    if asked.knows == "anyone":
        raise InvalidInput(
            "a front is measured, and nothing that is measured holds for anyone; let the "
            "attacker know the rest at most (knows='rest'), or tune with knows='anyone'."
        )
    if sampler not in SAMPLERS:
        raise UnknownName("sampler", sampler, SAMPLERS)
    counted("evaluations", evaluations)
    counted("units", units)
    plan = Plan.of(source, asked, run=run, beside=NOT_OF_A_FRONT)
    if run is not None:
        run.require({"units": units, "sampler": sampler}, whose="the front's")
        plan.setting.keep(run)
    made = {
        family.name: family
        for family in plan.families
        if family.deployable or asked.families is not None
    }
    if not made:
        raise InvalidInput("give at least one family, or leave families out for all of them.")
    evaluator = PointEvaluator(plan, units, asked.seeds)
    owner = run.key("study").hex()[:16] if run is not None and shared else None
    with (
        plan.pool(workers, ray) as pool,
        Study(
            storage,
            _study_name(plan, units, sampler),
            sampler=sampler,
            tuned=[family.name for family in made.values() if family.mechanism],
            untuned=[family.name for family in made.values() if not family.mechanism],
            seed=asked.seed,
            owner=owner,
        ) as trials,
    ):
        scheduler = Scheduler(pool, decode, run=run, watcher=ticker)
        start = scheduler.run_all({"none": evaluator.unprotected()})["none"]
        front = partial(front_of, plan, start, sampler=sampler, wanted=evaluations)
        while choices := trials.choices(evaluations, at_once=workers):
            found = scheduler.run_all(
                {
                    choice.name: evaluator.point(made[choice.family], choice.place)
                    for choice in choices
                }
            )
            for choice in choices:
                trials.finish(choice, found[choice.name])
            if report is not None:
                report(front(trials.points()))
        return front(trials.points())


def _study_name(plan: Plan, units: int, sampler: str) -> str:
    """Of the scenario and all settings, so that machines which share a study measure the same.

    The records count by their number alone: a plain hash of them would tell of them.
    """
    scenario = plan.scenario
    here = ("data", "device", "show_records")
    identity = {
        name: value for name, value in scenario_identity(scenario, b"").items() if name not in here
    }
    sizes = [list(record.inputs.shape) for record in (*scenario.records, scenario.test_records)]
    asked = plan.request.decides(NOT_OF_A_FRONT)
    whole = [identity, sizes, own_code(plan.own), asked, units, sampler]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    return f"pareto-{digest[:32]}"
