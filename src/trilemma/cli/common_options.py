"""What commands that measure share: options, interruptions, and how results are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilemma.cli.configuration import Running
    from trilemma.tuning.results.pareto_front import Front
    from trilemma.tuning.results.verdict import Verdict

__all__ = [
    "AttackOption",
    "JsonOption",
    "SuccessOption",
    "interruptible",
    "print_files",
    "print_json",
    "show_or_dump",
    "tell",
]

AttackOption = Annotated[str, typer.Option(help="The attack; an unknown name lists them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SuccessOption = Annotated[
    str | None,
    typer.Option(help="When a record is recovered: psnr:20, ssim:0.6; default psnr by kappa."),
]


def print_json(document: Mapping[str, Any]) -> None:
    """Print an object as docs/commands.md says."""
    print(json.dumps(document, allow_nan=False, indent=2))


def print_files(paths: Iterable[Path], said: str, *, as_json: bool) -> None:
    """Print which files were written, as JSON or each in a line, after what is said of it."""
    from trilemma.errors import printable

    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    for path in paths:
        print(f"{said}{printable(path)}")


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """An interruption says how to go on with the run in a folder."""
    from trilemma.errors import printable

    try:
        yield
    except KeyboardInterrupt:
        print(
            f"trilemma: interrupted; finished chunks are kept in {printable(folder)}: run the "
            f"same command again to go on.",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


def show_or_dump(
    document: Mapping[str, Any], running: Running, show: Callable[[], None], where: str
) -> None:
    """Print what was found, as JSON or for people, and on stderr where it is."""
    from trilemma.errors import printable

    if running.as_json:
        print_json(document)
    else:
        show()
    print(f"trilemma: {printable(where)}", file=sys.stderr)


def tell(result: Verdict | Front, folder: Path, *, as_json: bool, full: bool = False) -> None:
    """Print a result, as JSON or for people with where its file and its page are.

    Of a verdict its summary, or all of it where it is wanted in `full`.
    """
    if as_json:
        print_json(result.as_json())
        return
    from trilemma.errors import printable
    from trilemma.reporting.words.front_text import show_front
    from trilemma.reporting.words.verdict_text import show_verdict
    from trilemma.tuning.results.verdict import Verdict

    if not isinstance(result, Verdict):
        show_front(result)
        print()
    elif full:
        show_verdict(result)
        print()
    else:
        print(result.summary())
    what = "verdict" if isinstance(result, Verdict) else "front"
    print(f"{what}: {printable(folder / result.file)}")
    print(f"report: {printable(folder / 'report.html')}")
