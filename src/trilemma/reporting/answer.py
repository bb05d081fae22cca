"""The verdict in sentences, for who has not read the paper: what to use, what leaks, the price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.reporting.wording import interval, number, one_in, percent, phrase, times

if TYPE_CHECKING:
    from trilemma.estimation.costs import Costs
    from trilemma.tuning.results.verdict import AttackUsed, Candidate, Verdict

__all__ = ["Answer", "Card", "answer", "metric_name"]

_PROOF: Final = {
    "measured": "tested with fresh attacks",
    "certified": "proved for every attacker",
    "cryptographic": "rests on the key",
    "surrogate": "the paper's promise, no guarantee",
}


@dataclass(frozen=True)
class Card:
    """One fact of the first screen: what it is about, the figure, and how to read it."""

    title: str
    figure: str
    reading: str


@dataclass(frozen=True)
class Answer:
    """The first screen; `proof` says in a few words what it rests on."""

    headline: str
    proof: str
    lede: str
    limits: tuple[str, ...]
    leaks: Card
    costs: tuple[Card, ...] = ()


def answer(verdict: Verdict) -> Answer:
    """The first screen of a verdict."""
    chosen, budget = verdict.choice, number(verdict.problem.budget)
    if chosen is None:
        return Answer(
            headline=f"Nothing was shown to keep the budget of {budget}.",
            proof="no verdict",
            lede=verdict.advice,
            limits=verdict.limits,
            leaks=Card("What leaks", f"more than {budget}, or not shown", _unprotected(verdict)),
        )
    return Answer(
        headline=f"Use {phrase(chosen.protection)}.",
        proof=_PROOF[chosen.basis],
        lede=_lede(verdict),
        limits=(*verdict.limits, *_beyond(verdict)),
        leaks=_leaks(verdict, chosen),
        costs=() if chosen.costs is None else _costs(chosen.costs),
    )


def metric_name(costs: Costs) -> str:
    """Tuning measures accuracy, or minus the loss where there are no classes."""
    both = (costs.unprotected_metric, costs.protected_metric)
    return "accuracy" if all(0 <= value <= 1 for value in both) else "minus the loss"


def _lede(verdict: Verdict) -> str:
    there = verdict.federation
    who = "the server" if verdict.adversary.value == "server" else "another client"
    sees = (
        f"{there.clients} clients train a model of {there.parameters:,} parameters together; "
        f"{who} is curious and tries to reconstruct their records from what it receives. "
    )
    goal = (
        f"Of the protections tried, this is the one that costs least while keeping the leakage "
        f"within the budget of {number(verdict.problem.budget)}."
    )
    if verdict.basis == "surrogate":
        goal = "This is the optimum of the paper's closed forms; below is what attacks made of it."
    tied = [each.name for each in verdict.candidates if each.tied]
    ties = f" The measurements cannot tell it from {_listed(tied)}." if tied else ""
    return f"{sees}{goal}{ties}"


def _beyond(verdict: Verdict) -> list[str]:
    """Whoever was measured beside the adversary and is shown to learn more than the budget."""
    return [
        f"{each.who[:1].upper()}{each.who[1:]} learns more than the budget: leakage "
        f"{interval(each.leakage)}, {each.statement}."
        for each in verdict.beside
        if each.leakage is not None and each.leakage.low > verdict.problem.budget
    ]


def _leaks(verdict: Verdict, chosen: Candidate) -> Card:
    title, budget = "What leaks", number(verdict.problem.budget)
    if chosen.leakage is None:
        return Card(title, "nothing without the key", chosen.statement)
    if chosen.basis == "certified":
        figure = f"at most {number(chosen.leakage.high)}, budget {budget}"
        return Card(title, figure, chosen.statement)
    figure = f"{interval(chosen.leakage)}, budget {budget}"
    if chosen.basis == "surrogate":
        return Card(title, figure, f"{chosen.statement} {_unprotected(verdict)}")
    tried = next((p for p in chosen.points if p.passed and p.parameter == chosen.parameter), None)
    seen = ""
    if tried is not None:
        seen = (
            f"From {tried.recovered} of {tried.units} fresh protected updates the attacks got the "
            f"record they were after ({one_in(tried.recovered, tried.units)}). "
        )
    worst = chosen.worst_client
    most = "" if worst is None else f" The client that leaks most: {interval(worst)}."
    return Card(title, figure, f"{seen}{_unprotected(verdict)}{most}")


def _unprotected(verdict: Verdict) -> str:
    """What the best of the binding attacks recovers without protection."""
    binding: Sequence[AttackUsed] = [each for each in verdict.attacks if each.binding]
    if not binding:
        return ""
    best = max(binding, key=lambda each: each.control_recovered / max(each.control_units, 1))
    return f"Without protection: from {best.control_recovered} of {best.control_units}."


def _costs(costs: Costs) -> tuple[Card, ...]:
    before, after, loss = costs.unprotected_metric, costs.protected_metric, costs.utility_loss
    if metric_name(costs) == "accuracy":
        utility = Card(
            "Accuracy",
            f"{percent(before)} → {percent(after)}",
            f"A loss of {number(100 * loss.value)} points [{number(100 * loss.low)}, "
            f"{number(100 * loss.high)}], over {costs.seeds} paired trainings of {costs.rounds} "
            f"rounds.",
        )
    else:
        utility = Card(
            "Minus the loss",
            f"{number(before)} → {number(after)}",
            f"It falls by {interval(loss)}, over {costs.seeds} paired trainings of "
            f"{costs.rounds} rounds.",
        )
    slower = costs.efficiency_reduction
    speed = Card(
        "A round takes",
        f"{times(1 + slower.value)} as long",
        f"[{number(1 + slower.low)}, {number(1 + slower.high)}]: "
        f"{times(costs.protected.bits / max(costs.unprotected.bits, 1))} the bits and "
        f"{times(costs.protected.seconds / max(costs.unprotected.seconds, 1e-12))} the seconds, "
        f"at {number(costs.bandwidth / 1e6)} Mbit/s.",
    )
    return utility, speed


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
