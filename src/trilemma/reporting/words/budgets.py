"""What a budget means: right guesses among N candidates, and what others allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from trilemma.reporting.words.numbers import hundred, number
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from trilemma.tuning.request import Request

__all__ = ["OTHERS", "Allowed", "allowed", "one_in", "private_rate", "show_budget", "sizes"]

_SIZES: Final = (10, 20, 38, 100, 1000)
_EPSILONS: Final = (0.1, 1.0, 3.0, 8.0)

OTHERS: Final = (
    (
        "1 in 11 (9 %): the threshold for the risk of re-identification that the European "
        "Medicines Agency (policy 0070) and Health Canada (public release of clinical "
        "information) recommend for clinical reports that anybody may read."
    ),
    "1 in 11: the United States' Medicare services suppress table cells of 1 to 10 persons.",
    (
        "1 in 3, 1 in 5, 1 in 11, 1 in 20: k-anonymity with k = 3, 5, 11 or 20, values in common "
        "use, the larger the more widely the data is shared."
    ),
)
"""How others set theirs, as a rate of right guesses."""


_ADVICE: Final = (
    "The rate of right guesses is what a person affected would ask about; start with it.",
    "A rate does not move with N (--at-most); a leakage, which the paper counts in, does.",
    "The more harm one right guess does (a diagnosis), the fewer of them are bearable.",
)


def show_budget(asked: Request, candidates: int | None) -> None:
    """Print what a budget allows among N candidates, and how others set theirs."""
    out = Printer()
    if asked.at_most is None:
        out.text(
            f"A budget of {number(asked.budget)}: the attacker's belief may move by "
            f"{number(asked.budget)} at most, where 0 is nothing learnt and 1 is the record known."
        )
    else:
        out.text(
            f"At most {one_in(asked.at_most)} guesses right, whatever the number of candidates."
        )
    out.text(
        "One record of a client is hidden among N candidates; who watches guesses one of them.\n"
    )
    rows = []
    for found in (allowed(asked, size) for size in sizes(candidates)):
        own = ("no more than a blind guess", "–", "–")
        if found.rate is not None and found.leakage is not None:
            own = (hundred(found.rate), one_in(found.rate), number(found.leakage))
        rows.append((str(found.candidates), hundred(1 / found.candidates), *own))
    out.table(("N", "blind guess", "right guesses allowed", "that is", "leakage"), rows, gap=2)
    out.title("How others set theirs")
    out.bullets(OTHERS)
    size = candidates or 100
    said = ", ".join(f"ε = {item:g}: {hundred(private_rate(item, size))}" for item in _EPSILONS)
    bound = f"1 / (1 + {size - 1}·exp(-ε))"
    private = f"Differential privacy bounds the right guesses among {size} candidates by {bound}"
    out.bullets([f"{private}, against anyone: {said}."])
    out.title("How to choose")
    out.bullets(_ADVICE)


def sizes(candidates: int | None) -> tuple[int, ...]:
    """N as asked for, or usual ones."""
    return _SIZES if candidates is None else (candidates,)


class Allowed(NamedTuple):
    """The largest rate of right guesses among N candidates; None: no more than a blind guess."""

    candidates: int
    rate: float | None
    leakage: float | None


def allowed(asked: Request, size: int) -> Allowed:
    """What a budget allows among so many candidates."""
    if asked.at_most is not None and asked.at_most <= 1 / size:
        return Allowed(size, None, None)
    found, rate = asked.resolved(1 / size)
    return Allowed(size, rate, found.budget)


def one_in(rate: float) -> str:
    """A rate as a chance.

    >>> one_in(1 / 6), one_in(0.26), one_in(0.8), one_in(1 / 200), one_in(0.0)
    ('1 in 6', '1 in 3.8', '8 in 10', '1 in 200', 'never')
    """
    if rate < 1e-12:  # no one counts so far
        return "never"
    if rate > 0.5:
        return f"{10 * rate:.3g} in 10"
    return f"1 in {1 / rate:.1f}".removesuffix(".0") if rate > 0.1 else f"1 in {1 / rate:,.0f}"


def private_rate(epsilon: float, candidates: int) -> float:
    """e^ε / (e^ε + N - 1): the most often that anyone guesses right under (ε, 0)-privacy.

    >>> round(private_rate(1.0, 100), 4)
    0.0267
    """
    return 1 / (1 + (candidates - 1) * math.exp(-epsilon))
