"""The curves of each family on its own axis, from weak to strong, and what is marked on it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeGuard

from trilemma.reporting.words.numbers import bound, interval, number
from trilemma.reporting.words.protection_text import family
from trilemma.tuning.pareto.front_geometry import non_dominated

if TYPE_CHECKING:
    from trilemma.game.estimates import Estimate
    from trilemma.tuning.results.certificate import Certificate
    from trilemma.tuning.results.points import Point
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["Axis", "Mark", "Panel", "bare_panels", "front_places", "verdict_panels"]

MarkKind = Literal["verdict", "tested", "certificate"]
_DECIMALS: Final = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Axis:
    """log₁₀ of the weakest and of the strongest strength measured: 0 and 1 on the axis."""

    weakest: float
    strongest: float

    def x(self, strength: float) -> float:
        """Where a strength lies; beyond [0, 1] where nothing was measured."""
        return (math.log10(strength) - self.weakest) / (self.strongest - self.weakest)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """(x, strength) at round values: decades, or 1, 2 and 5 where there are few."""
        low, high = sorted((self.weakest, self.strongest))
        for digits in ((1.0,), _DECIMALS):
            values = [
                float(f"{digit:g}e{power}")
                for power in range(math.floor(low), math.ceil(high) + 1)
                for digit in digits
            ]
            inside = [v for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
            if len(inside) > 2:
                break
        shown = inside or [10**low, 10**high]
        return tuple(sorted((self.x(value), number(value)) for value in shown))


@dataclass(frozen=True)
class Mark:
    """A strength that somebody names, where it lies on the axis; `text` says all."""

    kind: MarkKind
    x: float
    text: str
    leakage: Estimate | None = None


@dataclass(frozen=True)
class Panel:
    """One family: its points from weak to strong (x, place), and marks; `name` is in words."""

    family: str
    name: str
    symbol: str
    axis: Axis
    points: tuple[tuple[float, int], ...]
    marks: tuple[Mark, ...] = ()


def verdict_panels(verdict: Verdict) -> tuple[Panel, ...]:
    """The panels of a verdict's curves."""
    return tuple(
        replace(panel, marks=tuple(_marks(verdict, panel.family, panel.axis)))
        for panel in bare_panels(verdict.curves)
    )


def bare_panels(points: Sequence[Point]) -> tuple[Panel, ...]:
    """One panel for each family that has a strength, with nothing marked on it."""
    panels = []
    for named in dict.fromkeys(point.family for point in points):
        own = [
            (point.place, point.strength, n)
            for n, point in enumerate(points)
            if point.family == named and point.place is not None and point.strength
        ]
        values = [value for _, value, _ in sorted(own)]
        if values and min(values) > 0 and values[0] != values[-1]:
            axis = Axis(math.log10(values[0]), math.log10(values[-1]))
            drawn = tuple(sorted((axis.x(value), n) for _, value, n in own))
            symbol = points[own[0][2]].symbol or "value"
            panels.append(Panel(named, family(named), symbol, axis, drawn))
    return tuple(panels)


def front_places(points: Sequence[Point]) -> tuple[int, ...]:
    """Places of the points that no other one is better than in all three objectives."""
    able = [
        (n, point.objectives) for n, point in enumerate(points) if point.objectives is not None
    ]
    return tuple(able[n][0] for n in non_dominated([found for _, found in able]))


def _marks(verdict: Verdict, named: str, axis: Axis) -> Iterator[Mark]:
    for found in verdict.candidates:
        if found.name != named:
            continue
        if found.certificate is not None:
            yield _certificate(found.certificate, axis)
        elif found.feasible and _positive(found.strength):
            chosen = found.name == verdict.chosen
            yield Mark(
                "verdict" if chosen else "tested",
                axis.x(found.strength),
                f"{'Verdict' if chosen else 'Tested with fresh games'}: {found.symbol} "
                f"{number(found.strength)}, leakage {interval(found.leakage)}.",
                found.leakage,
            )


def _positive(strength: float | None) -> TypeGuard[float]:
    return strength is not None and strength > 0


def _certificate(proof: Certificate, axis: Axis) -> Mark:
    """On the curve of the noise that it adds; the certificate clips as well."""
    return Mark(
        "certificate",
        axis.x(proof.variance),
        f"Certificate: noise variance {number(proof.variance)} with clipping to norm "
        f"{number(proof.record_clip)}, leakage at most {bound(proof.leakage)} to anyone.",
    )
