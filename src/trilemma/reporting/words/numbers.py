"""Numbers in words; the page's scripts/charts.js writes numbers and intervals the same way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Final

from trilemma.quantities import cases_at_most, rounded_up

if TYPE_CHECKING:
    from trilemma.game.estimates import Estimate

__all__ = [
    "at_most",
    "bits",
    "bound",
    "change",
    "count",
    "hundred",
    "interval",
    "listed",
    "lost",
    "metric",
    "multiple",
    "number",
    "percent",
    "slower",
    "times",
]

# Halves go away from zero, as in JavaScript's toPrecision.
_DIGITS: Final = 3
_ALIKE: Final = 0.005  # of a ratio that people would call 1


def number(value: float | None, digits: int = _DIGITS) -> str:
    """Significant digits, with an exponent below 10⁻⁴ and from 10⁶ on; None is a dash.

    >>> [number(each) for each in (0.2180428, 1.0, 0.00012702, 4.81e-18, 77576.0, -0.67097, None)]
    ['0.218', '1', '0.000127', '4.81e-18', '77600', '-0.671', '–']
    """
    if value is None:
        return "–"
    rounded = Context(prec=digits, rounding=ROUND_HALF_UP).plus(Decimal(value))
    if not rounded:
        return "0"
    exponent = rounded.adjusted()
    if -4 <= exponent < 6:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa = f"{rounded.scaleb(-exponent):f}"
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{exponent}"


def bound(value: float, digits: int = _DIGITS) -> str:
    """An upper bound, or noise that is needed: never rounded down.

    >>> bound(3.9012), bound(13.51553, 5), bound(0.3)
    ('3.91', '13.516', '0.3')
    """
    return number(rounded_up(value, digits), digits)


def interval(estimate: Estimate | None) -> str:
    """A value and its limits.

    >>> from trilemma.game.estimates import Estimate
    >>> interval(Estimate(0.21804, 0.16665, 0.27478))
    '0.218 [0.167, 0.275]'
    """
    if estimate is None:
        return "–"
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def hundred(rate: float) -> str:
    """A rate as people say it, of 100 cases.

    >>> hundred(0.2578), hundred(1 / 38), hundred(0.001)
    ('26 of 100', '2.6 of 100', '0.1 of 100')
    """
    cases = 100 * rate
    return f"{cases:.0f} of 100" if cases >= 9.95 or cases == 0 else f"{cases:.2g} of 100"


def at_most(rate: float) -> str:
    """An upper bound of a rate of 100 cases: never rounded down.

    >>> at_most(0.07778), at_most(0.3537), at_most(0.01448), at_most(1.0)
    ('7.8 of 100', '36 of 100', '1.5 of 100', '100 of 100')
    """
    return hundred(cases_at_most(rate) / 100)


def percent(share: float) -> str:
    """A share in per cent, in two digits; what is below all is not rounded up to all.

    >>> percent(0.92727), percent(0.0263), percent(0.9973), percent(1.0), percent(0.0)
    ('93 %', '2.6 %', '99.7 %', '100 %', '0 %')
    """
    cases = 100 * share
    if 99.5 <= cases < 100:
        return f"{min(99.9, cases):.1f} %"
    return f"{cases:.0f} %" if cases >= 9.95 or cases == 0 else f"{cases:.2g} %"


def metric(value: float | None, name: str) -> str:
    """A metric's value; accuracy in per cent.

    >>> metric(0.93217, "accuracy"), metric(-0.4123, "minus the loss")
    ('93 %', '-0.412')
    """
    if value is None:
        return "–"
    return percent(value) if name == "accuracy" else number(value)


def lost(estimate: Estimate, name: str) -> str:
    """How much of a metric is lost or gained, with its limits; accuracy in points.

    >>> from trilemma.game.estimates import Estimate
    >>> lost(Estimate(-0.01, -0.05, 0.03), "accuracy")
    '1.0 points gained (between 5.0 gained and 3.0 lost)'
    >>> lost(Estimate(0.05, 0.04, 0.06), "minus the loss")
    '0.05 lost (between 0.04 lost and 0.06 lost)'
    """
    accuracy = name == "accuracy"

    def way(value: float, unit: str = "") -> str:
        amount = f"{100 * abs(value):.1f}" if accuracy else number(abs(value))
        return f"{amount}{unit} {'gained' if value < 0 and float(amount) else 'lost'}"

    value = way(estimate.value, " points" if accuracy else "")
    return f"{value} (between {way(estimate.low)} and {way(estimate.high)})"


def times(ratio: float) -> str:
    """How many times as much.

    >>> times(1.0113)
    '1.01 ×'
    """
    return f"{number(ratio)} ×"


def multiple(ratio: float, what: str) -> str:
    """So many times of something that nobody would call the same.

    >>> multiple(1.0, "bits"), multiple(1.268, "bits")
    ('the same bits', '1.27 times the bits')
    """
    if abs(ratio - 1) <= _ALIKE:
        return f"the same {what}"
    return f"{number(ratio)} times the {what}"


def bits(count: float) -> str:
    """Bits with the prefix that suits them.

    >>> bits(155152), bits(2.1e6), bits(800)
    ('155 kbit', '2.1 Mbit', '800 bits')
    """
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{number(count / size)} {prefix}bit"
    return f"{number(count)} bits"


def change(gain: float) -> str:
    """A change of a metric, to a thousandth; nothing is never negative.

    >>> change(-0.0301), change(-0.0001), change(0.02)
    ('-0.030', '+0.000', '+0.020')
    """
    return f"{round(gain, 3) + 0.0:+.3f}"


def slower(reduction: float | None) -> str:
    """How long a round takes, in rounds without protection.

    >>> slower(-0.0051), slower(3.44), slower(127.4)
    ('0.99 ×', '4.4 ×', '128 ×')
    """
    if reduction is None:
        return "–"
    ratio = 1 + reduction
    digits = 2 if ratio < 2 else (1 if ratio < 100 else 0)
    return f"{ratio:.{digits}f} ×"


def count(number: int, what: str) -> str:
    """So many of something.

    >>> count(1, "record"), count(2410, "parameter")
    ('1 record', '2,410 parameters')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
