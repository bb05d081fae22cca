"""Numbers and protections in words; templates/charts.js writes numbers the same way."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Final

from trilemma.protections.specs import parse_protection

if TYPE_CHECKING:
    from trilemma.estimation.leakage import Estimate

__all__ = [
    "change",
    "count",
    "interval",
    "number",
    "one_in",
    "percent",
    "phrase",
    "slower",
    "times",
]

# Halves go away from zero, as in JavaScript's toPrecision.
_THREE: Final = Context(prec=3, rounding=ROUND_HALF_UP)


def number(value: float | None) -> str:
    """Three significant digits, with an exponent below 10⁻⁴ and from 10⁶ on; None is a dash.

    >>> [number(each) for each in (0.2180428, 1.0, 0.00012702, 4.81e-18, 77576.0, -0.67097, None)]
    ['0.218', '1', '0.000127', '4.81e-18', '77600', '-0.671', '–']
    """
    if value is None:
        return "–"
    rounded = _THREE.plus(Decimal(value))
    if not rounded:
        return "0"
    exponent = rounded.adjusted()
    if -4 <= exponent < 6:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa = f"{rounded.scaleb(-exponent):f}"
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{exponent}"


def interval(estimate: Estimate | None) -> str:
    """A value and its limits.

    >>> from trilemma.estimation.leakage import Estimate
    >>> interval(Estimate(0.21804, 0.16665, 0.27478))
    '0.218 [0.167, 0.275]'
    """
    if estimate is None:
        return "–"
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def times(ratio: float) -> str:
    """How many times as much.

    >>> times(1.0113)
    '1.01 ×'
    """
    return f"{number(ratio)} ×"


def change(gain: float) -> str:
    """A change of a metric, to a thousandth; nothing is never negative.

    >>> change(-0.0301), change(-0.0001), change(0.02)
    ('-0.030', '+0.000', '+0.020')
    """
    return f"{round(gain, 3) + 0.0:+.3f}"


def slower(reduction: float) -> str:
    """By how many times its own duration a round is longer (+) or shorter (-).

    >>> slower(-0.0051), slower(3.44), slower(127.4)
    ('-0.0051', '+3.4', '+127')
    """
    return f"{reduction:+.2g}" if abs(reduction) < 100 else f"{reduction:+.0f}"


def count(number: int, what: str) -> str:
    """So many of something.

    >>> count(1, "record"), count(4, "record")
    ('1 record', '4 records')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share in per cent, to a tenth.

    >>> percent(0.92727)
    '92.7 %'
    """
    return f"{Decimal(100 * share).quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def one_in(successes: int, trials: int) -> str:
    """A share as people say it.

    >>> one_in(17, 185), one_in(0, 33), one_in(30, 30), one_in(8, 12)
    ('about 1 in 11', 'none', 'all', '8 of 12')
    """
    if successes in (0, trials):
        return "all" if successes else "none"
    if 2 * successes > trials:
        return f"{successes} of {trials}"
    return f"about 1 in {round(trials / successes)}"


def phrase(spec: str | None) -> str:
    """What a protection does, as the object of "use …".

    >>> phrase("randomization:variance=0.000127+secret-sharing:ring_bits=32")
    'noise of variance 0.000127 inside secure aggregation'
    """
    if spec is None or spec == "none":
        return "no protection"
    said = (each.words(number) for each in parse_protection(spec).parts)
    return " inside ".join(filter(None, said))
