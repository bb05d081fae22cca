"""The command line: parse, call, print.

Heavy libraries are imported inside the commands that need them, so that `--help` and `solve`
start at once.
"""

from __future__ import annotations

import sys

import click
import typer

from trilemma.commands import keys
from trilemma.commands.attack import attack
from trilemma.commands.estimate import estimate
from trilemma.commands.figures import figures
from trilemma.commands.pareto import pareto
from trilemma.commands.report import report
from trilemma.commands.runs import runs
from trilemma.commands.solve import solve
from trilemma.commands.tune import tune
from trilemma.errors import TrilemmaError, sentence

__all__ = ["app", "main"]

app = typer.Typer(
    name="trilemma",
    help="How much protection do federated updates need, which kind, and what will it cost?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(attack)
app.command()(estimate)
app.command()(figures)
app.command()(pareto)
app.command()(report)
app.command()(runs)
app.command()(solve)
app.command()(tune)
app.add_typer(keys.app, name="keys")


def main() -> None:
    """Run a command; a user's mistake ends in one sentence and exit code 2."""
    try:
        code = app(prog_name="trilemma", standalone_mode=False)
    except TrilemmaError as error:
        print(f"trilemma: {error}", file=sys.stderr)
        code = 2
    except click.UsageError as error:
        if wrong := error.format_message():  # empty when a bare `trilemma` printed the help
            print(f"trilemma: {sentence(wrong)} See trilemma --help.", file=sys.stderr)
        code = 2
    except click.Abort:
        print("trilemma: interrupted.", file=sys.stderr)
        code = 130
    sys.exit(code)
