"""The command line: parse, call, print.

Heavy libraries are imported inside the commands that need them, so that `--help` and `solve`
start at once.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import click
import typer

import trilemma
from trilemma.cli import keys
from trilemma.cli.attack import attack
from trilemma.cli.audit import audit
from trilemma.cli.canaries import canaries
from trilemma.cli.check import check
from trilemma.cli.deploy import deploy
from trilemma.cli.estimate import estimate
from trilemma.cli.evidence import evidence
from trilemma.cli.explain import explain
from trilemma.cli.figures import figures
from trilemma.cli.new import new
from trilemma.cli.paper import paper
from trilemma.cli.pareto import pareto
from trilemma.cli.prove import prove
from trilemma.cli.report import report
from trilemma.cli.runs import runs
from trilemma.cli.solve import solve
from trilemma.cli.tune import tune
from trilemma.cli.verify import verify
from trilemma.errors import TrilemmaError, sentence, users_fault

__all__ = ["app", "main"]

app = typer.Typer(
    name="trilemma",
    help="How much protection do federated updates need, which kind, and what will it cost?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"trilemma {trilemma.__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="After an error, print the whole traceback.")
    ] = False,
) -> None:
    """Options of every command; `main` has read --debug already."""


app.command()(attack)
app.command()(audit)
app.command()(canaries)
app.command()(check)
app.command()(deploy)
app.command()(estimate)
app.command()(evidence)
app.command()(explain)
app.command()(figures)
app.command()(new)
app.command()(paper)
app.command()(pareto)
app.command()(prove)
app.command()(report)
app.command()(runs)
app.command()(solve)
app.command()(tune)
app.command()(verify)
app.add_typer(keys.app, name="keys")


def main() -> None:
    """Run a command; a user's mistake ends in one sentence and exit code 2."""
    words = sys.argv[1:]
    debug = "--debug" in words  # anywhere: people add it to the end of what has failed
    try:
        code = app(
            [word for word in words if word != "--debug"], "trilemma", standalone_mode=False
        )
    except TrilemmaError as error:
        if debug:
            traceback.print_exc()
        print(f"trilemma: {error}", file=sys.stderr)
        code = 2
    except click.UsageError as error:
        if wrong := error.format_message():  # empty when a bare `trilemma` printed the help
            print(f"trilemma: {sentence(wrong)} See trilemma --help.", file=sys.stderr)
        code = 2
    except click.Abort:
        print("trilemma: interrupted.", file=sys.stderr)
        code = 130
    except Exception as error:  # in a user's model or loss, it is theirs to mend
        if debug or not (fault := users_fault(error)):
            raise
        print(f"trilemma: {sentence(fault)}", file=sys.stderr)
        code = 2
    sys.exit(code)
