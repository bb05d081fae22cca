"""The main job: from a request to a protection and its strength, with the evidence."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trilemma.tuning.choosing.pictures import gallery_procedures, keep_gallery
from trilemma.tuning.forecasting.imagining import beginnings, forecast_of, guess_of
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.telling import judged
from trilemma.work.replay import Ahead, hand_out_early, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilemma.estimation.scenario import Source
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.work.journal import Run
    from trilemma.work.progress import Ticker

__all__ = ["tune"]


def tune(
    source: Source,
    request: Request | None = None,
    *,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
    answered: Callable[[], object] | None = None,
    **settings: Any,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `tune(scenario, budget=.3)` makes the request of its keywords. What `run` already holds is not
    measured again; without it everything stays in memory. `workers` are processes, or actors of
    the Ray cluster at the address `ray`. `answered` is called when the choice is made, while what
    stands beside it is still measured. Where the scenario shows records, gallery.json in the run's
    folder shows some beside what the attacks make of them.
    """
    plan = Plan.of(source, Request.of(request, settings), run=run)
    if run is not None:
        plan.setting.keep(run)
    known: dict[tuple[str, int], bytes] = {}
    with plan.crew(workers, ray) as crew:
        ahead = Ahead(workers, guess_of(plan, known)) if workers > 1 else None
        if ahead is not None:
            hand_out_early(beginnings(plan), crew, run=run, ahead=ahead)
        if ticker is not None:  # which takes a while
            found = forecast_of(plan, workers=workers, pictures=run is not None, known=known)
            ticker.expect(found)
        done = partial(settle, crew=crew, run=run, ticker=ticker, known=known, ahead=ahead)

        def tell(answer: str) -> None:
            if ticker is not None:
                ticker.tell(answer)
            if answered is not None:
                answered()

        verdict = judged(
            plan,
            done,
            tell,
            along=(lambda choice: gallery_procedures(plan, choice.chosen)) if run else None,
        )
        if run is not None:
            keep_gallery(plan, verdict.choice, run, done)
    return verdict
