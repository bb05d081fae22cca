"""How often an attacker is right at most, in a sentence; no torch is read, as `prove` is quick."""

from __future__ import annotations

import math
from typing import Final

from trilemma.quantities import cases_at_most

__all__ = ["in_clients", "singled_out"]

_FEW: Final = 5  # cases of 100 above which they are counted whole


def singled_out(
    level: str, size: int, success: float, *, rounds: int, helpers: int, secret: bool, client: bool
) -> str:
    """The sentence about an attacker, who may be a `client`, whose `success` rate is proved."""
    seen = "the round" if rounds == 1 else f"all {rounds:,} rounds"
    who = "Someone who"
    if client:  # of messages it sees none
        who, seen = "A client that", f"only the means of {seen}"
    does = [f"holds {size:,} equally likely {level}s", f"sees {seen}"]
    if secret:
        does.append("does not know which of them used the record")
    if helpers:
        does.append(f"is helped by {in_clients(helpers)}")
    cases = cases_at_most(success)
    return (
        f"{who} {', '.join(does[:-1])} and {does[-1]} singles the right one out in at most "
        f"{math.ceil(cases) if cases > _FEW else cases:.3g} of 100 attempts; guessing gives "
        f"{100 / size:.2g}. Proved."
    )


def in_clients(number: int) -> str:
    """One client, or several."""
    return "one client" if number == 1 else f"{number} clients"
