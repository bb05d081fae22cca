"""`trilemma deploy`: an app or a job from a verdict, or how one that is there differs from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma import api
from trilemma.cli.common_options import JsonOption, print_json

__all__ = ["deploy"]


def deploy(
    verdict: Annotated[Path, typer.Argument(help="A verdict.json or its run folder.")],
    flower: Annotated[
        Path | None, typer.Option(help="Write a Flower app into this folder.", metavar="DIR")
    ] = None,
    nvflare: Annotated[
        Path | None, typer.Option(help="Write an NVFlare job into this folder.", metavar="DIR")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="Compare this Flower app, which imports its code, or exported NVFlare job.",
            metavar="APP",
        ),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="module:function, where the verdict does not say [its own].")
    ] = None,
    scopes: Annotated[
        Path | None, typer.Option(help="With --nvflare: a site's privacy.json to join.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write what a federation needs to run a verdict, or compare an app with it, field by field.

    Exit codes: 0, written, or no difference; 1, differences; 2, a mistake.

    Examples: trilemma deploy runs/first --flower app; trilemma deploy runs/first --check app
    """
    from trilemma.errors import printable

    done = api.deploy(
        verdict, flower=flower, nvflare=nvflare, check=check, scenario=scenario, scopes=scopes
    )
    if as_json:
        print_json(done.as_json())
    else:
        for path in done.files:
            print(printable(path))
        for difference in done.differences:
            line = (
                f"{difference.field}: {difference.verdict} in the verdict, {difference.app} here"
            )
            print(printable(line))
        if check is not None and not done.differences:
            print(f"{printable(check)} is what {done.verdict} says.")
    if done.differences:
        raise typer.Exit(1)
