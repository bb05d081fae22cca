"""Named errors. Each message is one sentence that names the value and the way out.

Whatever a message quotes, its text is one printable line of bounded length.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final

__all__ = [
    "BudgetSpent",
    "ForeignCiphertext",
    "InvalidInput",
    "ModelRefused",
    "NotConfigured",
    "PolicyRefused",
    "ProtocolViolation",
    "RangeExceeded",
    "SecretExposure",
    "TooFewClients",
    "TrilemmaError",
    "UnknownName",
    "Untrusted",
    "WeakKey",
    "place_of",
    "printable",
    "sentence",
    "users_fault",
]

_HEAD: Final = 600  # characters kept of a longer sentence: what is wrong ...
_TAIL: Final = 300  # ... and the way out
_OURS: Final = str(Path(__file__).parent)
_LIBRARIES: Final = (_OURS, sysconfig.get_paths()["stdlib"], "<")


class TrilemmaError(Exception):
    """Base of every error that a user can cause and mend; the CLI prints it and exits with 2."""

    def __str__(self) -> str:
        return sentence(super().__str__())


class InvalidInput(TrilemmaError, ValueError):
    """A value lies outside its domain."""


class BudgetSpent(TrilemmaError):
    """A node's data took part in all the rounds that its terms allow."""


class ForeignCiphertext(InvalidInput):
    """A ciphertext, share or sealed message that is malformed, altered or for another key."""


class ModelRefused(TrilemmaError):
    """A node's look at the model found what its policy refuses."""


class NotConfigured(InvalidInput):
    """A node lacks a key, a file or a name that its owner has to give it."""


class PolicyRefused(TrilemmaError):
    """A node's own policy asks for more than the terms of an app or a job give."""


class ProtocolViolation(TrilemmaError):
    """A message or request that an honest peer would not send: replayed, foreign or forged."""


class RangeExceeded(InvalidInput):
    """Numbers beyond what a transport was laid out for; the message quotes none of them."""


class SecretExposure(TrilemmaError, TypeError):
    """An attempt to pickle or copy a secret; secrets leave by an explicit call only."""


class TooFewClients(TrilemmaError):
    """Fewer clients than the threshold are left, so the round ends without a result."""


class Untrusted(TrilemmaError):
    """Code that a file names, and whose author nobody vouched for."""


class WeakKey(InvalidInput):
    """A key too short to protect anything."""


class UnknownName(InvalidInput):
    """A name that no registry knows; the message lists the known ones.

    >>> str(UnknownName("mechanism", "pailier", ["paillier", "compression"]))
    "unknown mechanism 'pailier' (did you mean 'paillier'?); known: compression, paillier."
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        name = name if len(name) <= 80 else f"{name[:80]}..."
        close = get_close_matches(name, names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        super().__init__(f"unknown {kind} {name!r}{hint}; known: {', '.join(names)}.")


def sentence(text: str) -> str:
    r"""The text as one printable line; of one beyond 900 characters the middle is left out.

    >>> print(sentence("cannot read\na"), len(sentence("a" * 5000)))
    cannot read\na 903
    """
    line = printable(text)
    if len(line) <= _HEAD + _TAIL:
        return line
    return f"{line[:_HEAD]}...{line[-_TAIL:]}"


def printable(text: object) -> str:
    r"""The text with every character that a terminal would obey, or cannot show, written out.

    >>> print(printable("runs/\x1b[31mred"))
    runs/\x1b[31mred
    """
    return "".join(
        item if item.isprintable() else item.encode("unicode_escape").decode("ascii")
        for item in str(text)
    )


def place_of(error: BaseException) -> str:
    """File and line of the last step in code that ours has called, or of a syntax error.

    Empty where the error is none of the user's.

    >>> try:
    ...     compile("a = = 1", "my_model.py", "exec")
    ... except SyntaxError as error:
    ...     place_of(error)
    'my_model.py, line 1'
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    steps = traceback.extract_tb(error.__traceback__)
    ours = (place for place, step in enumerate(steps) if step.filename.startswith(_OURS))
    for step in reversed(steps[next(ours, len(steps)) :]):  # what we have called
        library = step.filename.startswith(_LIBRARIES) or "-packages" in step.filename
        if not library:
            return f"{step.filename}, line {step.lineno}"
    return ""


def users_fault(error: Exception) -> str:
    """What to say of an unforeseen error in code that ours has called; empty for one of ours."""
    place = place_of(error)
    said = f"{type(error).__name__}: {error}".removesuffix(".")
    return f"your code failed ({said}; {place}); --debug shows every step." if place else ""
