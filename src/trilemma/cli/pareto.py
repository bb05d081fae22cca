"""`trilemma pareto`: the front of leakage, utility and efficiency, where no weights are known."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trilemma import api
from trilemma.cli.common_options import interruptible, tell
from trilemma.cli.configuration import SettingsArgument, read_settings, with_flags
from trilemma.settings import Federated, Searched, run_folder
from trilemma.tuning.request import NOT_OF_A_FRONT, Request

__all__ = ["pareto"]


@with_flags(Federated, Request, Searched, leave_out=NOT_OF_A_FRONT)
def pareto(
    settings: SettingsArgument = None,
    storage: Annotated[
        str | None,
        typer.Option(help="Database URL of a study that machines share [a file in the folder]."),
    ] = None,
    **flags: Any,
) -> None:
    """Measure the front of leakage, utility and efficiency, where no weights are known.

    Example: trilemma pareto --scenario digits --evaluations 32 --workers 2 --out runs/front
    """
    federated, request, searched, running = read_settings(
        settings, flags, Federated, Request, Searched
    )
    decides = request.decides(NOT_OF_A_FRONT) | searched.model_dump(exclude={"evaluations"})
    folder = running.out or run_folder("pareto", federated, decides)
    with interruptible(folder):
        front = api.pareto(
            federated.scenario,
            request,
            **searched.model_dump(),
            storage=storage,
            out=folder,
            **running.work,
            **federated.given(),
        )
    tell(front, folder, as_json=running.as_json)
