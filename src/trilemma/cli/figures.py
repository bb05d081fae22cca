"""`trilemma figures`: the plots of a run as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trilemma.cli.common_options import JsonOption, print_files
from trilemma.cli.configuration import TrustOption

__all__ = ["figures"]


def figures(
    run: Annotated[
        Path, typer.Argument(help="A run folder, or a verdict.json or pareto.json.", metavar="RUN")
    ],
    out: Annotated[Path | None, typer.Option(help="Where they go [RUN/figures].")] = None,
    form: Annotated[
        Literal["svg", "png", "both"], typer.Option("--format", help="Kind of file.")
    ] = "svg",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw success rates, leakage, costs, front and ranking of a run as SVG or PNG files.

    Example: trilemma figures runs/first --out paper/figures --format svg
    """
    from trilemma.naming import only_named
    from trilemma.reporting.figures.figure_files import draw_figures

    with only_named(trust=trust):
        paths = draw_figures(run, out, form)
    print_files(paths, "", as_json=as_json)
