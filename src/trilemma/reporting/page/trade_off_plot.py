"""Success rate against accuracy lost: the curves of each kind of knowledge, and the proof's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from trilemma.reporting.words.numbers import at_most, count, number, percent
from trilemma.reporting.words.trade_off_text import ATTACKERS

if TYPE_CHECKING:
    from trilemma.tuning.request import Knows
    from trilemma.tuning.results.success_by_noise import AttackerRate, TradeOff, TradeOffPoint

__all__ = ["Curve", "TradeOffPlot", "trade_off_plot", "trade_off_words"]

_BETWEEN: Final = 12  # places of a curve between two noise multipliers
_SURE: Final = 1 - 1e-9


@dataclass(frozen=True)
class Curve:
    """One attacker's success rate against what is lost, the least noise first.

    `line` are the places through which the curve goes, and `band` (lost, lower, upper) along it;
    `points` are (lost, rate) at the noise multipliers, and `said` a sentence for each. `proved`:
    an upper bound.
    """

    knows: Knows
    name: str
    proved: bool
    line: tuple[tuple[float, float], ...]
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...]
    said: tuple[str, ...]


@dataclass(frozen=True)
class TradeOffPlot:
    """What is drawn: the curves from the top down, lines, the axes' ends, the chosen place."""

    curves: tuple[Curve, ...]
    budget: float
    blind: float
    chosen: int
    x_ends: tuple[float, float]
    x_label: str
    in_percent: bool
    y_label: str


def trade_off_plot(found: TradeOff) -> TradeOffPlot:
    """The plot of a trade-off."""
    points = found.points
    in_percent = all(0 <= point.metric.value <= 1 for point in points)
    lost = [point.lost for point in points]
    proof = Curve(
        "anyone",
        ATTACKERS["anyone"],
        True,
        _smooth(points),
        tuple((point.lost, point.proof) for point in points),
        (),
        tuple(f"{_place(point, in_percent)}: at most {at_most(point.proof)}" for point in points),
    )
    curves = [proof]
    for row in reversed(range(len(points[0].attackers))):
        own = [point.attackers[row] for point in points]
        drawn = tuple((x, item.rate) for x, item in zip(lost, own, strict=True))
        curves.append(
            Curve(
                own[0].knows,
                ATTACKERS[own[0].knows],
                False,
                drawn,
                drawn,
                _band(own, proof.line),
                tuple(
                    f"{_place(point, in_percent)}: {_counted(item)}"
                    for point, item in zip(points, own, strict=True)
                ),
            )
        )
    room = 0.04 * (max(lost) - min(lost)) or 0.01
    return TradeOffPlot(
        tuple(curves),
        found.allowed,
        1 / found.candidates,
        found.chosen,
        (min(lost) - room, max(lost) + room),
        "accuracy lost (points)" if in_percent else "minus the loss, lost",
        in_percent,
        f"Success rate of one guess among {found.candidates} candidates",
    )


def trade_off_words(found: TradeOff) -> str:
    """Whose rates these are, under which conditions, in a few sentences."""
    knows = "knows" if found.participation == "known" else "does not know"
    seen = "message" if found.summed == 1 else f"sum of {found.summed} clients"
    noises = "one honest noise is" if found.noises == 1 else f"{found.noises} honest noises are"
    return (
        f"One recipe, with less and more noise. Each attacker sees all {found.rounds:,} rounds, "
        f"{knows} which of them used the record, and guesses once among {found.candidates} candidates; in each {seen}, "
        f"{noises} counted. Accuracy is that of {count(found.seeds, 'training')} with all clients "
        f"at each noise, lost against the federation's own batches without protection"
        f"{_against_best(found)}. Intervals hold all at once, at "
        f"{percent(found.confidence)} confidence."
    )


def _against_best(found: TradeOff) -> str:
    """How much more is lost against the best unprotected training, where that is known."""
    point = found.points[found.chosen]
    if point.lost_to_best is None:
        return ""
    more = point.lost_to_best - point.lost
    said = f"{100 * more:.1f} points" if 0 <= point.metric.value <= 1 else number(more)
    return f"; against the best training without protection {said} more are lost"


def _smooth(points: tuple[TradeOffPoint, ...]) -> tuple[tuple[float, float], ...]:
    """Places on the proof's curve: its probit is straight in 1/z, what is lost in log z."""
    normal, places = NormalDist(), []
    for left, right in pairwise(points):
        ends = [normal.inv_cdf(min(_SURE, max(1 - _SURE, p.proof))) for p in (left, right)]
        z, w = left.noise_multiplier, right.noise_multiplier
        for step in range(_BETWEEN):
            at = z * (w / z) ** (step / _BETWEEN)
            share = (1 / at - 1 / z) / (1 / w - 1 / z)
            x = left.lost + (right.lost - left.lost) * step / _BETWEEN
            places.append((x, normal.cdf(ends[0] + share * (ends[1] - ends[0]))))
    return (*places, (points[-1].lost, points[-1].proof))


def _band(
    own: list[AttackerRate], line: tuple[tuple[float, float], ...]
) -> tuple[tuple[float, float, float], ...]:
    """(lost, lower, upper) along the proof's curve, and never above it."""
    made = []
    for at, (x, proof) in enumerate(line):
        place, step = divmod(at, _BETWEEN)
        left, right = own[place], own[min(place + 1, len(own) - 1)]
        share = step / _BETWEEN
        lower = left.lower + share * (right.lower - left.lower)
        upper = left.upper + share * (right.upper - left.upper)
        made.append((x, min(lower, proof), min(upper, proof)))
    return tuple(made)


def _place(point: TradeOffPoint, in_percent: bool) -> str:
    amount = f"{100 * abs(point.lost):.1f} points" if in_percent else number(abs(point.lost))
    way = "gained" if point.lost < 0 else "lost"
    if math.isclose(point.lost, 0, abs_tol=5e-4):
        amount, way = "nothing", "lost"
    return f"noise multiplier {number(point.noise_multiplier)}, {amount} {way}"


def _counted(each: AttackerRate) -> str:
    between = f"between {percent(each.lower)} and {percent(each.upper)}"
    if not each.units:
        return f"no games; {between}"
    return f"right in {each.recovered} of {count(each.units, 'game')}; {between}"
