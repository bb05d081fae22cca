"""The paper's algorithm on a federation, with its page and its figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trilemma.beliefs.recovery import Criterion
from trilemma.door.sources import source_of
from trilemma.estimation.scenario import Scenario
from trilemma.paper.algorithm import ATTEMPTS, MODELS, Asked, run_paper
from trilemma.reporting.figures.files import draw_figures
from trilemma.reporting.page.page import write_report
from trilemma.tuning.problem import (
    DEFAULT_BUDGET,
    DEFAULT_EFFICIENCY_WEIGHT,
    DEFAULT_UTILITY_WEIGHT,
    Problem,
)
from trilemma.work.files import new_folder
from trilemma.work.progress import Ticker

if TYPE_CHECKING:
    from trilemma.paper.result import Paper

__all__ = ["paper"]


def paper(
    scenario: Scenario | Callable[[], Scenario] | str,
    *,
    budget: float = DEFAULT_BUDGET,
    form: Asked = "all",
    utility_weight: float | tuple[float, ...] = DEFAULT_UTILITY_WEIGHT,
    efficiency_weight: float | tuple[float, ...] = DEFAULT_EFFICIENCY_WEIGHT,
    max_utility_loss: float | None = None,
    max_cost: float | None = None,
    success: str | None = None,
    models: int = MODELS,
    attempts: int = ATTEMPTS,
    seed: int = 0,
    out: Path | str | None = None,
    quiet: bool = False,
) -> Paper:
    """The paper's algorithm: `paper("digits", budget=0.3)`.

    C₁, ξ and C₂ from T = `attempts` attacks on each client at M = `models` models, γ* of all four
    mechanisms in the `form` (all: printed, corrected, tight), and what is measured there. With a
    folder `out`, paper.json, report.html and figures are written there.
    """
    problem = Problem(budget, utility_weight, efficiency_weight, max_utility_loss, max_cost)
    criterion = Criterion.parse(success) if success else None
    source, folder = source_of(scenario), None if out is None else new_folder(out)
    with Ticker("paper", quiet=quiet) as ticker:
        ticker.say("looking at the federation")
        found = run_paper(
            source if isinstance(source, Scenario) else source(),
            problem,
            form=form,
            criterion=criterion,
            models=models,
            attempts=attempts,
            seed=seed,
            say=ticker.say,
        )
    if folder is not None:
        found.save(folder / found.file)
        write_report(found, folder)
        draw_figures(folder / found.file, form="both")
    return found
