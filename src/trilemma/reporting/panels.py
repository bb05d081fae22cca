"""The curves of each mechanism on its own axis, from weak to strong, and what is marked on it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeGuard

from trilemma.protections.dp import private_noise
from trilemma.protections.specs import parse_protection
from trilemma.reporting.wording import interval, number
from trilemma.tuning.fronts.front import non_dominated

if TYPE_CHECKING:
    from trilemma.estimation.leakage import Estimate
    from trilemma.tuning.fronts.points import Evaluated
    from trilemma.tuning.results.verdict import Candidate, Verdict

__all__ = ["Axis", "Mark", "Panel", "bare_panels", "front_places", "verdict_panels"]

MarkKind = Literal["verdict", "tested", "surrogate", "certificate"]
_PAPER_MASKS: Final = {"secret-sharing": "bounded-masks"}  # the paper's r is the bound of a mask
_DECIMALS: Final = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Axis:
    """log₁₀ of the weakest and of the strongest parameter measured: 0 and 1 on the axis."""

    weakest: float
    strongest: float

    def x(self, parameter: float) -> float:
        """Where a parameter lies; beyond [0, 1] where nothing was measured."""
        return (math.log10(parameter) - self.weakest) / (self.strongest - self.weakest)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """(x, parameter) at round values: decades, or 1, 2 and 5 where there are few."""
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
    """A parameter that somebody names, where it lies on the axis; `text` says all."""

    kind: MarkKind
    x: float
    text: str
    leakage: Estimate | None = None


@dataclass(frozen=True)
class Panel:
    """One mechanism: its points from weak to strong (x, place), marks, and Fisher's line."""

    mechanism: str
    symbol: str
    axis: Axis
    points: tuple[tuple[float, int], ...]
    marks: tuple[Mark, ...] = ()
    predicted: tuple[tuple[float, float], ...] = ()


def verdict_panels(verdict: Verdict) -> tuple[Panel, ...]:
    """The panels of a verdict's curves."""
    return tuple(
        replace(
            panel,
            marks=tuple(_marks(verdict, panel.mechanism, panel.axis)),
            predicted=tuple(
                sorted(
                    (panel.axis.x(each.parameter), each.leakage)
                    for each in verdict.predictions
                    if each.mechanism == panel.mechanism and each.parameter > 0
                )
            ),
        )
        for panel in bare_panels(verdict.curves)
    )


def bare_panels(points: Sequence[Evaluated]) -> tuple[Panel, ...]:
    """One panel for each mechanism that has a strength, with nothing marked on it."""
    panels = []
    for mechanism in dict.fromkeys(each.mechanism for each in points):
        own = [
            (each.strength, each.parameter, n)
            for n, each in enumerate(points)
            if each.mechanism == mechanism and each.strength is not None and each.parameter
        ]
        values = [value for _, value, _ in sorted(own)]
        if values and min(values) > 0 and values[0] != values[-1]:
            axis = Axis(math.log10(values[0]), math.log10(values[-1]))
            drawn = tuple(sorted((axis.x(value), n) for _, value, n in own))
            panels.append(Panel(mechanism, points[own[0][2]].symbol or "value", axis, drawn))
    return tuple(panels)


def front_places(points: Sequence[Evaluated]) -> tuple[int, ...]:
    """Places of the points that no other one is better than in all three objectives."""
    able = [(n, each.objectives) for n, each in enumerate(points) if each.objectives is not None]
    return tuple(able[n][0] for n in non_dominated([found for _, found in able]))


def _marks(verdict: Verdict, mechanism: str, axis: Axis) -> Iterator[Mark]:
    for each in verdict.promises:
        if _PAPER_MASKS.get(each.mechanism, each.mechanism) == mechanism and _positive(
            each.parameter
        ):
            leaks = f"; measured {interval(each.measured)}" if each.measured else ""
            yield Mark(
                "surrogate",
                axis.x(each.parameter),
                f"The paper's optimum γ* ({each.form}): {each.symbol} = {number(each.parameter)}, "
                f"promised to leak {number(each.promised)}{leaks}.",
                each.measured,
            )
    for found in verdict.candidates:
        if found.certificate is not None:
            yield from _certificate(found, mechanism, axis)
        elif found.name == mechanism and found.feasible and _positive(found.parameter):
            chosen = found.name == verdict.chosen
            yield Mark(
                "verdict" if chosen else "tested",
                axis.x(found.parameter),
                f"{'Verdict' if chosen else 'Tested with fresh units'}: {found.symbol} "
                f"{number(found.parameter)}, leakage {interval(found.leakage)}.",
                found.leakage,
            )


def _positive(parameter: float | None) -> TypeGuard[float]:
    return parameter is not None and parameter > 0


def _certificate(found: Candidate, mechanism: str, axis: Axis) -> Iterator[Mark]:
    """On the curve of the noise that it adds; the certificate clips as well."""
    assert found.certificate is not None
    carrier = found.name.partition("+")[2]
    if mechanism != "+".join(filter(None, ("randomization", carrier))):
        return
    noise = private_noise(parse_protection(found.certificate.protection))
    if noise is not None:
        yield Mark(
            "certificate",
            axis.x(noise.variance),
            f"Certificate: noise variance {number(noise.variance)} on updates clipped to norm "
            f"{number(found.certificate.clip)}, at most {number(found.certificate.leakage)} "
            f"to any attacker.",
        )
