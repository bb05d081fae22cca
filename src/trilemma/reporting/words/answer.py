"""The verdict's first screen in sentences, for who has not read the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.observations import Adversary
from trilemma.reporting.words.numbers import (
    bits,
    count,
    hundred,
    interval,
    listed,
    metric,
    multiple,
    number,
    points,
    times,
)
from trilemma.reporting.words.proof_text import clipped
from trilemma.reporting.words.protection_text import family, phrase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilemma.game.costs import Costs
    from trilemma.tuning.calibration.outcomes import Tested
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.verdict import Verdict

__all__ = [
    "Answer",
    "Card",
    "answer",
    "earlier_tests",
    "final_tests",
    "metric_name",
    "not_needed",
    "paper_leakage",
    "verdict_metric",
    "who",
]

_PROOF: Final = {
    "measured": "tested with fresh games",
    "certified": "proved for every attacker",
    "cryptographic": "rests on the key",
}


@dataclass(frozen=True)
class Card:
    """One fact of the first screen: what it is about, the figure, and how to read it."""

    title: str
    figure: str
    reading: str


@dataclass(frozen=True)
class Answer:
    """The first screen; `proof` says in a few words what it rests on, and `warns` of a client."""

    headline: str
    use: str
    proof: str
    lede: str
    leaks: Card
    costs: tuple[Card, ...] = ()
    warns: bool = False


def answer(verdict: Verdict) -> Answer:
    """The first screen of a verdict."""
    chosen, budget = verdict.choice, number(verdict.request.budget)
    if chosen is None:
        capped = any(item.breaks_a_cap for item in verdict.candidates)
        held = "Protections hold this attacker off, but none of them within the caps."
        return Answer(
            headline=held if capped else "No protection was shown to hold this attacker off.",
            use=f"Nothing keeps {'the caps and ' if capped else ''}the budget of {budget}.",
            proof="no verdict",
            lede=f"Asked for: {verdict.headline} {verdict.advice}",
            leaks=Card("What leaks", f"more than {budget}, or not shown", _unprotected(verdict)),
        )
    return Answer(
        headline=verdict.headline,
        use=_use(chosen),
        proof=_PROOF[chosen.basis] + _beyond(verdict, chosen),
        warns=bool(_beyond(verdict, chosen)),
        lede=_lede(verdict),
        leaks=_leaks(verdict, chosen),
        costs=() if chosen.costs is None else _costs(chosen.costs, verdict),
    )


def _beyond(verdict: Verdict, chosen: Candidate) -> str:
    """Which client leaks more than the budget, though all of them together do not."""
    worst = chosen.worst_client
    if worst is None or worst.value <= verdict.request.budget:
        return ""
    return f"; client {chosen.leakiest_client} leaks {number(worst.value)}, above the budget"


def who(request: Request) -> str:
    """The adversary, as the subject of a sentence."""
    return "the server" if request.adversary is Adversary.SERVER else "a curious client"


def metric_name(values: Iterable[float | None], own: str = "") -> str:
    """Accuracy, minus the loss where there are no classes, or a metric of one's `own`.

    >>> metric_name([0.93, None, 0.91]), metric_name([-0.4])
    ('accuracy', 'minus the loss')
    """
    if own:
        return own
    inside = all(value is None or 0 <= value <= 1 for value in values)
    return "accuracy" if inside else "minus the loss"


def verdict_metric(verdict: Verdict) -> str:
    """What a verdict's trainings are measured by."""
    values = (item.costs.protected_metric for item in verdict.candidates if item.costs)
    return metric_name(values, verdict.federation.metric)


def final_tests(candidate: Candidate) -> tuple[Tested, ...]:
    """The tests at the strength found."""
    return tuple(test for test in candidate.tests if test.strength == candidate.strength)


def earlier_tests(candidate: Candidate) -> str:
    """The tests that failed on the way, in one sentence; empty where none did."""
    failed = [
        f"{test.attack} guessed right in {test.recovered} of {test.units} games at "
        f"{candidate.symbol or 'strength'} {number(test.strength)}"
        for test in candidate.tests
        if not test.passed
    ]
    return f"Failed on the way, so that the search went on: {'; '.join(failed)}." if failed else ""


def not_needed(verdict: Verdict, candidate: Candidate) -> str:
    """That what noise is added to would do alone, where it was shown to; else nothing."""
    inside = candidate.name.partition("randomization+")[2]
    alone = [item for item in verdict.candidates if item.name == inside and item.feasible]
    if not inside or not alone or alone[0].basis == "cryptographic":
        return ""
    return f"Not needed: {family(inside)} is within the budget."


def paper_leakage(verdict: Verdict) -> str:
    """The paper's leakage as the attackers' beliefs give it, in one sentence."""
    found = [
        f"{belief.attack} {number(belief.mean)} (most exposed client {number(belief.largest)})"
        for belief in verdict.beliefs
    ]
    if not found:
        return ""
    return (
        f"The paper's leakage, computed from what attackers believe: {listed(found)}. It is no "
        f"rate of right guesses: a firm belief counts where it is wrong, too."
    )


def _use(chosen: Candidate) -> str:
    what = phrase(chosen.protection)
    if chosen.basis == "certified" and chosen.certificate is not None:
        return f"Use {what}, {clipped(chosen.certificate)}."
    return f"Use {what}."


def _lede(verdict: Verdict) -> str:
    there, asked = verdict.federation, verdict.request
    reads = "from what it receives" if asked.adversary is Adversary.SERVER else "from the sums"
    curious = "the server" if asked.adversary is Adversary.SERVER else "one of them"
    told = (
        f"{count(there.clients, 'client')} train a model of "
        f"{count(there.parameters, 'parameter')} together; {curious} is curious and tries to tell "
        f"{reads} which record was used. "
    )
    sure = f", at confidence {number(asked.confidence)}" if verdict.basis == "measured" else ""
    tied = [family(item.name) for item in verdict.candidates if item.tied]
    best = f"this one and {listed(tied)} cost least" if tied else "this one costs least"
    goal = (
        f"Of the protections tried, {best} while the leakage is within the budget of "
        f"{number(asked.budget)}{sure}."
    )
    first = "this one keeps the metric best, or sends the fewest bits"
    ties = f" The measurements do not tell which; {first}." if tied else ""
    return f"{told}{goal}{ties}"


def _leaks(verdict: Verdict, chosen: Candidate) -> Card:
    title, asked = "What leaks", verdict.request
    if chosen.leakage is None:
        return Card(title, "nothing without the key", chosen.statement)
    budget = f"budget {number(asked.budget)}"
    if chosen.basis == "certified":
        figure = f"leakage at most {number(chosen.leakage.high)}, {budget}"
        return Card(title, figure, f"{chosen.statement} {_unprotected(verdict)}".strip())
    allowed = hundred(verdict.largest_success_rate)
    found = chosen.success
    figure = f"leakage {interval(chosen.leakage)}"
    limits = ""
    if found is not None:
        figure = f"guessed right in {hundred(found.value)} games"
        limits = f"Interval: {number(100 * found.low)} to {number(100 * found.high)}. "
    worst = chosen.worst_client
    whose = f" of those with 20 games or more ({chosen.pooled_clients} have fewer)"
    among = whose if chosen.pooled_clients else ""
    most = "" if worst is None else f" The client that leaks most{among}: {interval(worst)}."
    return Card(
        title,
        figure,
        f"{limits}Allowed: {allowed}; a blind guess: {hundred(verdict.claim.kappa)}. As leakage: "
        f"{interval(chosen.leakage)}, {budget}.{most} {_unprotected(verdict)}",
    )


def _unprotected(verdict: Verdict) -> str:
    """What the best of the attacks picks from single rounds without protection."""
    if not verdict.attacks:
        return ""
    best = max(verdict.attacks, key=lambda each: each.control_recovered / each.control_units)
    return (
        f"Without protection, {best.name} guesses right in {best.control_recovered} of "
        f"{best.control_units} single rounds."
    )


def _costs(costs: Costs, verdict: Verdict) -> tuple[Card, ...]:
    before, after, loss = costs.unprotected_metric, costs.protected_metric, costs.utility_loss
    name, constant = verdict_metric(verdict), verdict.federation.baseline
    beside = "" if constant is None else f" One constant answer reaches {metric(constant, name)}."
    lost = f"A loss of {points(loss)}" if name == "accuracy" else f"It falls by {interval(loss)}"
    utility = Card(
        name.capitalize(),
        f"{metric(before, name)} → {metric(after, name)}",
        f"{lost}, over {costs.seeds} paired trainings of {count(costs.rounds, 'round')}."
        f"{_against_the_best(costs, name)}{beside}",
    )
    slower, plain, shielded = costs.efficiency_reduction, costs.unprotected, costs.protected
    seconds = shielded.seconds / max(plain.seconds, 1e-12)
    speed = Card(
        "A round costs",
        f"{multiple(shielded.bits / max(plain.bits, 1), 'bits')}, "
        f"{multiple(seconds, 'CPU seconds')}",
        f"{bits(shielded.bits)} and {number(shielded.client_seconds)} CPU seconds a client, "
        f"{number(shielded.server_seconds)} at the server; without protection "
        f"{bits(plain.bits)}, {number(plain.client_seconds)} and "
        f"{number(plain.server_seconds)}. At "
        f"{number(costs.bandwidth / 1e6)} Mbit/s a round takes {times(1 + slower.value)} as long "
        f"[{number(1 + slower.low)}, {number(1 + slower.high)}].",
    )
    return utility, speed


def _against_the_best(costs: Costs, name: str) -> str:
    """What is lost against the best training without protection that has the same freedoms."""
    best = costs.best_unprotected_metric
    if best is None:
        return ""
    lost = best - costs.protected_metric
    figure = f"{100 * lost:.1f} points" if name == "accuracy" else number(lost)
    return (
        f" The best unprotected training with the same freedoms "
        f"reaches {metric(best, name)}: against it {figure} are lost."
    )
