"""What the explorer must recommend, by trying every point: the oracle of scripts/rule.js."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.reporting import examples

from trilemma.game.estimates import Estimate
from trilemma.reporting.page.explorer import Explorer, Preference
from trilemma.tuning.results.points import Point

__all__ = ["Option", "recommended", "spoiled"]


@dataclass(frozen=True)
class Option:
    """A family at the weakest measured strength that keeps the budget, by its place."""

    place: int
    objective: Estimate
    tied: bool = False


def recommended(explorer: Explorer, want: Preference) -> list[Option]:
    """The options, the best first."""
    points = explorer.points
    found = []
    for family in dict.fromkeys(point.family for point in points):
        able = [n for n, point in enumerate(points) if point.family == family and _ran(point)]
        kept = [n for n in able if _most(points[n], points) <= want.budget]
        if family in explorer.barred or not kept:
            continue
        place = min(kept, key=lambda n: points[n].place or 0.0)
        loss, cost = points[place].utility_loss, points[place].efficiency_reduction
        assert loss
        assert cost
        caps = (explorer.max_utility_loss, loss), (explorer.max_cost, cost)
        if any(cap is not None and item.value > cap for cap, item in caps):
            continue
        weights = want.utility_weight, want.efficiency_weight
        ends = zip(
            (loss.value, loss.low, loss.high), (cost.value, cost.low, cost.high), strict=True
        )
        found.append(Option(place, Estimate(*(weights[0] * a + weights[1] * b for a, b in ends))))
    found.sort(key=lambda each: each.objective.value)
    return [
        replace(item, tied=rank > 0 and item.objective.value <= found[0].objective.high)
        for rank, item in enumerate(found)
    ]


def _ran(each: Point) -> bool:
    return None not in (each.protection, each.utility_loss, each.efficiency_reduction)


def _most(point: Point, points: tuple[Point, ...]) -> float:
    """The largest upper limit of this point and of all stronger ones that can be run."""
    return max(
        (
            other.leakage.high
            for other in points
            if other.family == point.family
            and other.protection
            and other.leakage
            and (other.place or 0) >= (point.place or 0)
        ),
        default=0.0,
    )


def spoiled(seed: int) -> tuple[Point, ...]:
    """Curves with bumps, points that cannot be run, and points that did not train."""
    draw = random.Random(seed)
    made = list(examples.curves(points=9, units=draw.choice([12, 48, 200]), seed=seed))
    for place, item in enumerate(made):
        if item.place is not None and draw.random() < 0.15:
            made[place] = replace(item, protection=None, leakage=None, utility_loss=None)
        elif item.place is not None and draw.random() < 0.15:
            made[place] = replace(item, utility_loss=None, efficiency_reduction=None)
    draw.shuffle(made)
    return tuple(made)
