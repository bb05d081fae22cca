"""`trilemma canaries`: what a verdict proved, held against its deployment as it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma import api
from trilemma.cli.common_options import JsonOption, print_json
from trilemma.cli.configuration import TrustOption
from trilemma.naming import only_named

__all__ = ["canaries"]


def canaries(
    verdict: Annotated[Path, typer.Argument(help="A verdict.json or its run folder.")],
    canaries: Annotated[int, typer.Option(help="How many; more show more.")] = 500,
    scenario: Annotated[
        str | None, typer.Option(help="The federation, where the verdict does not name it.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the canaries [a random one].")] = None,
    as_json: JsonOption = False,
    trust: TrustOption = False,
) -> None:
    """Train once as a verdict deploys, with canaries, and hold what comes out against its proof.

    Clients add vectors that the auditor knows to their gradients, each by a coin; they pass clip,
    sum, noise and transport as records do. From how well they are told apart follows a lower
    bound on what leaks. Exit code 1 where it lies above the proof, or where a test fails.

    Example: trilemma canaries runs/demo
    """
    with only_named(scenario, trust=trust):
        audit = api.audit_canaries(verdict, scenario, canaries=canaries, seed=seed)
    if as_json:
        print_json(audit.as_json())
    else:
        from trilemma.reporting.words.canary_text import show_canaries

        show_canaries(audit)
    if not audit.conforms:
        raise typer.Exit(1)
