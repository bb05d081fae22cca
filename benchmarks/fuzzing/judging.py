"""What counts as a defect: anything but an accepted input or a refusal in one sentence."""

from __future__ import annotations

import os
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from trilemma.errors import TrilemmaError

__all__ = ["Door", "Tally", "Wrong", "require", "require_sentence", "tried"]

LONGEST = 1000  # characters of a sentence
PATIENCE = 30.0  # seconds for one input, thousands of times what it takes
ACCEPTED, REFUSED, BROKEN = "accepted", "refused", "BROKEN"

Door = Callable[[Random, Path], None]


class Wrong(Exception):
    """Something was accepted that must not be, or said in a way that it must not be."""


class Hang(BaseException):
    """An input took longer than any input may."""


@dataclass
class Tally:
    """What became of the inputs of one kind; `broken` are (number, what went wrong)."""

    counts: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str]] = field(default_factory=list)


def require(true: bool, what: str) -> None:
    """Raises where an accepted input is not what it should be."""
    if not true:
        raise Wrong(what)


def require_sentence(text: str) -> None:
    """Raises unless a refusal is one line of printable text, of bounded length, with an end."""
    require(text.isprintable(), f"a refusal with control characters: {text!r:.300}")
    require(0 < len(text) <= LONGEST, f"a refusal of {len(text)} characters: {text:.200}")
    require(text.endswith((".", "?")), f"a refusal that does not end: {text[-200:]}")


def tried(door: Door, seed: int, kind: str, numbers: range) -> Tally:
    """What becomes of these inputs of a door, each in an empty folder of its own."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="trilemma-fuzz-") as parent, _hunted():
        for number in numbers:
            folder = Path(parent) / str(number)
            folder.mkdir()
            before = Path.cwd()
            os.chdir(folder)
            try:
                outcome, what = _outcome(door, Random(f"{seed} {kind} {number}"), folder)
            finally:
                os.chdir(before)
            tally.counts[outcome] += 1
            if outcome == BROKEN:
                tally.broken.append((number, what))
            _emptied(folder)
    return tally


def _outcome(door: Door, draw: Random, folder: Path) -> tuple[str, str]:
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        door(draw, folder)
    except TrilemmaError as error:
        try:
            require_sentence(str(error))
        except Wrong as wrong:
            return BROKEN, str(wrong)
        return REFUSED, ""
    except Wrong as wrong:
        return BROKEN, str(wrong)
    except Hang:
        return BROKEN, "hangs"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error!s:.300} ({place.filename}:{place.lineno})"
        return BROKEN, text
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ACCEPTED, ""


@contextmanager
def _hunted() -> Iterator[None]:
    """Warnings are errors, and an alarm ends what hangs."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.signal(signal.SIGALRM, before)


def _emptied(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()
