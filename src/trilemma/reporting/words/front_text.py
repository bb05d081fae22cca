"""A front for people, in 80 columns: the same text on a terminal and on a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.reporting.words.answer import metric_name, who
from trilemma.reporting.words.knowledge_text import WHAT_IS_KNOWN
from trilemma.reporting.words.numbers import change, count, number, slower
from trilemma.reporting.words.protection_text import family, phrase, strength
from trilemma.reporting.words.terminal import Printer, short

if TYPE_CHECKING:
    from trilemma.tuning.results.pareto_front import Front
    from trilemma.tuning.results.points import Point

__all__ = ["front_attacker", "show_front"]


def show_front(front: Front) -> None:
    """The front from the least leakage up, its knee and its volume, and what is not covered."""
    out, there = Printer(), front.federation
    out.text(
        f"{there.scenario}: {count(there.clients, 'client')}, "
        f"{count(there.records_per_update, 'record')} an update; {front_attacker(front)}; "
        f"{front.evaluations} of {front.wanted} evaluations ({front.sampler}), seed "
        f"{front.request.seed}"
    )
    out.title(f"Front: {len(front.front)} of {len(front.points)} points")
    shown = metric_name((point.metric for point in front.points), front.federation.metric)
    best = [(front.points[place], place) for place in front.front]
    best.sort(key=lambda pair: pair[0].objectives or ())
    out.table(
        ("", "family", "strength", "leakage", shown.replace("minus the ", "-"), "round"),
        [("*" if place == front.knee else "", *_cells(item)) for item, place in best],
    )
    out.title("Reading")
    for line in _reading(front):
        out.note(line)
    out.title("Not covered")
    out.bullets(front.limits)


def front_attacker(front: Front) -> str:
    """Who attacks, over how many rounds and out of how many candidates."""
    claim = front.claim
    over = "one round" if claim.rounds == 1 else f"{claim.rounds} rounds"
    return (
        f"{who(front.request)} knows {WHAT_IS_KNOWN[front.request.knows]}, watches {over} "
        "and picks one "
        f"of {claim.candidates} candidates ({', '.join(front.attacks)})"
    )


def _cells(each: Point) -> tuple[str, ...]:
    leak = "key"
    if each.leakage is not None:
        leak = f"{each.leakage.value:.2f} [{each.leakage.low:.2f}, {each.leakage.high:.2f}]"
    loss, reduction = each.utility_loss, each.efficiency_reduction
    return (
        family(each.family),
        "–" if each.family == "none" else short(strength(each.family, each.strength)),
        leak,
        "–" if loss is None else change(-loss.value),
        "–" if reduction is None else slower(reduction.value),
    )


def _reading(front: Front) -> list[str]:
    corner = ", ".join(f"{value:g}" for value in front.reference)
    best = front.points[front.knee].protection
    name = metric_name((point.metric for point in front.points), front.federation.metric)
    lines = [
        (
            f"leakage: {100 * front.request.confidence:g} % interval of one point alone; {name}: "
            f"its change; round: how long it takes, in rounds without protection"
        ),
        f"* the knee, nearest to the best of all three: {phrase(best)}",
        (
            f"hypervolume {number(front.hypervolume)} below ({corner}) in (leakage, loss, "
            f"r / (1 + r)), where a round takes r times as long"
        ),
    ]
    if any(front.points[place].basis == "cryptographic" for place in front.front):
        lines.append("key: the server reads nothing; no measurement, it rests on the key")
    failed = [point for point in front.points if point.objectives is None]
    if failed:
        what = count(len(failed), "point")
        lines.append(f"{what} cannot be run or trained; pareto.json says why")
    return lines
