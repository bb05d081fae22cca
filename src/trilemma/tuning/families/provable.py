"""Which families can be proved against anyone, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilemma.errors import InvalidInput

__all__ = ["CERTIFIED", "certified_families"]

CERTIFIED: Final = ("randomization", "randomization+secret-sharing", "randomization+paillier")
"""The families that can be proved: Gaussian noise on clipped updates, nothing chosen by value."""


def certified_families(names: Sequence[str] | None, clients: int) -> tuple[str, ...]:
    """The families to be proved: those named, by default all that so many clients can run."""
    if names is None:
        return CERTIFIED if clients > 1 else CERTIFIED[:1]
    for name in names:
        if name not in CERTIFIED:
            raise InvalidInput(
                f"nothing can be proved of {name}: {_why_not(name)}; choose from "
                f"{', '.join(CERTIFIED)}, or tune for another attacker than anyone."
            )
    return tuple(names)


def _why_not(name: str) -> str:
    if "randomization" not in name:
        return "without Gaussian noise one record changes what is seen for certain"
    return (
        "which coordinates are sent is no part of the proof, and what a client keeps back for "
        "later (error feedback) would be a memory of records"
    )
