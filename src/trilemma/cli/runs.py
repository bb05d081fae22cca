"""`trilemma runs`: the run folders, and how far each has come."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trilemma.cli.common_options import JsonOption, print_json

__all__ = ["runs"]


def runs(
    folder: Annotated[Path, typer.Argument(help="Where the run folders are.")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """List the runs in a folder.

    Example: trilemma runs runs
    """
    from trilemma.errors import InvalidInput, printable
    from trilemma.execution.run_files import is_folder
    from trilemma.execution.run_listing import list_runs

    if not is_folder(folder):
        raise InvalidInput(
            f"{folder} is no folder; runs are made by tune, pareto, attack and estimate."
        )
    found = list_runs(folder)
    whole = [item for item in found if not item.damage]
    if as_json:
        print_json({"runs": [{**asdict(item), "folder": str(item.folder)} for item in found]})
    elif not found:
        print(f"no runs in {printable(folder)}")
    for item in () if as_json else whole:
        state = "in use" if item.in_use else ("finished" if item.results else "can be resumed")
        made = ", ".join(item.results) or "-"
        line = f"{item.folder}  {item.command}  {item.chunks} chunks  {state}  {made}"
        print(printable(line))
    if damaged := [item for item in found if item.damage]:
        others = ", ".join(str(item.folder) for item in damaged[1:])
        also = f"; also damaged: {others}" if others else ""
        raise InvalidInput(f"{damaged[0].damage.removesuffix('.')}{also}.")
