"""`trilemma explain`: what a budget means for so many candidates, and how others set theirs."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trilemma.cli.common_options import JsonOption, print_json

__all__ = ["explain"]

_MOST: Final = 10**9


def explain(
    budget: Annotated[float | None, typer.Option(help="A leakage between 0 and 1.")] = None,
    at_most: Annotated[
        str | None, typer.Option(help='Or a rate of right guesses: "1 in 6", "17 %".')
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(help="N, records that the attacker picks from [several].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a budget means for N candidates, and how others set theirs.

    Example: trilemma explain --at-most "1 in 6" --candidates 100
    """
    from trilemma.errors import InvalidInput
    from trilemma.reporting.words.budgets import allowed, show_budget, sizes
    from trilemma.tuning.request import Request

    given = {"budget": budget, "at_most": at_most}
    asked = Request.of(None, {name: value for name, value in given.items() if value is not None})
    if candidates is not None and not 2 <= candidates <= _MOST:
        raise InvalidInput(f"candidates must lie in 2 .. {_MOST:,}, got {candidates}.")
    if as_json:
        rates = [allowed(asked, size)._asdict() for size in sizes(candidates)]
        print_json({"budget": asked.budget, "at_most": asked.at_most, "rates": rates})
    else:
        show_budget(asked, candidates)
