"""`trilemma report`: one page that explains a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trilemma.cli.common_options import JsonOption, print_files
from trilemma.cli.configuration import TrustOption

__all__ = ["report"]


def report(
    run: Annotated[
        Path, typer.Argument(help="A run folder, or a verdict.json or pareto.json.", metavar="RUN")
    ],
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write report.html beside the result of a run: one file that fetches nothing.

    Example: trilemma report runs/first --open
    """
    import webbrowser

    from trilemma.naming import only_named
    from trilemma.reporting.page.page import write_report
    from trilemma.reporting.run_results import read_run

    with only_named(trust=trust):
        target = write_report(*read_run(run))
    print_files([target], "report: ", as_json=as_json)
    if show and not webbrowser.open(target.resolve().as_uri()):
        print("no browser found here: open the file yourself", file=sys.stderr)
