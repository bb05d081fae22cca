"""Numbers that users give: plain Python ones, of a size that arithmetic and messages can bear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from numbers import Integral, Real
from typing import Final

from trilemma.errors import InvalidInput

__all__ = [
    "between", "cases_at_most", "counted", "finite", "one_of", "positive", "rounded_up", "shown",
    "whole",
]  # fmt: skip

_LEAST: Final = 1e-100  # squares, inverses and sums of what lies between stay ordinary floats
_MOST: Final = 1e100
_SHOWN: Final = 80  # characters of a value that a message quotes


def whole(what: str, value: object) -> int:
    """The value as a plain integer; NumPy's are taken, a bool or 2.0 is refused.

    >>> whole("bits", 16)
    16
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        meant = "; write it without quotation marks" if isinstance(value, str) else ""
        raise InvalidInput(f"{what} must be a whole number, got {shown(value)}{meant}.")
    number = int(value)
    if number.bit_length() > 64:  # too long to print, too
        raise InvalidInput(f"{what} must have at most 64 bits, got {number.bit_length()}.")
    return number


def counted(what: str, value: object) -> int:
    """The value as a plain integer of at least 1.

    >>> counted("rounds", 150)
    150
    """
    number = whole(what, value)
    if number < 1:
        raise InvalidInput(f"{what} must be at least 1, got {number}.")
    return number


def one_of(what: str, value: object, choices: Sequence[str]) -> None:
    """Raises unless the value is one of the choices.

    >>> one_of("weighting", "equal", ("equal", "records"))
    """
    if value not in choices:
        raise InvalidInput(
            f"{what} must be {' or '.join(map(repr, choices))}, got {shown(value)}."
        )


def between(what: str, value: object) -> float:
    """The value as a plain float strictly between 0 and 1.

    >>> between("confidence", 0.95)
    0.95
    """
    number = _real(what, value)
    if not 0 < number < 1:
        raise InvalidInput(f"{what} must lie strictly between 0 and 1, got {number}.")
    return number


def positive(what: str, value: object) -> float:
    """The value as a plain float; NumPy's are taken, and 0, nan, inf and 5e-324 are refused.

    >>> positive("variance", 1)
    1.0
    """
    number = _real(what, value)
    if not _LEAST <= number <= _MOST:
        raise InvalidInput(
            f"{what} must be positive and finite, in {_LEAST:g} .. {_MOST:g}, got {number}."
        )
    return number


def finite(what: str, value: object) -> float:
    """The value as a plain float of bearable size; nan, inf, a bool and a text are refused.

    >>> finite("cap", -2)
    -2.0
    """
    number = _real(what, value)
    if not abs(number) <= _MOST:
        raise InvalidInput(f"{what} must be finite, in ±{_MOST:g}, got {number}.")
    return number


def shown(value: object) -> str:
    """The value as a message quotes it, whatever its size.

    >>> shown(0.5), shown(10**9000)
    ('0.5', 'a value too long to print')
    """
    try:
        text = repr(value)
    except ValueError:  # of an integer of thousands of digits, somewhere inside
        return "a value too long to print"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _real(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{what} must be a number, got {shown(value)}.")
    try:
        return float(value)
    except OverflowError:  # an integer of more than 1024 bits
        return math.inf


def cases_at_most(rate: float) -> float:
    """An upper bound of a rate, of 100 cases, as it is printed: never rounded down.

    >>> cases_at_most(0.07778), cases_at_most(0.3537), cases_at_most(1.0)
    (7.8, 36.0, 100.0)
    """
    cases = 100 * rate
    steps = 1 if cases > 10 else 10  # tenths of few cases
    return min(100.0, math.ceil(cases * steps - 1e-9) / steps)


def rounded_up(value: float, digits: int = 3) -> float:
    """An upper bound, or noise that is needed, as it is printed: never rounded down.

    >>> rounded_up(3.9012), rounded_up(13.51553, 5), rounded_up(0.1)
    (3.91, 13.516, 0.1)
    """
    near = Decimal(value) * (1 - Decimal("1e-12"))  # 0.1 itself lies above a tenth
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(near))
