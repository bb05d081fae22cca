"""`trilemma new`: a scenario file and a trilemma.toml to start from, which run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma.cli.common_options import JsonOption, print_files
from trilemma.cli.scaffold import Kind, write_scaffold
from trilemma.errors import printable

__all__ = ["new"]


def new(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    kind: Annotated[Kind, typer.Option(help="What the records are.")] = "image",
    as_json: JsonOption = False,
) -> None:
    """Write a commented scenario file and a trilemma.toml, which run at once.

    Example: trilemma new my-federation --kind table
    """
    made = write_scaffold(folder, kind)
    print_files(made, "wrote ", as_json=as_json)
    if as_json:
        return
    enter = "" if folder == Path() else f"cd {printable(folder)}\n  "
    print(
        f"Next, to see what will be attacked and how long it takes:\n  {enter}trilemma check\n"
        f"then, for a first answer, and for the whole one:\n  trilemma tune --quick\n"
        f"  trilemma tune\nYour own data goes where the file {printable(made[0].name)} says so."
    )
