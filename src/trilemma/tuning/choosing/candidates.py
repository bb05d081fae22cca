"""From evidence to a candidate: what a family leaks at its strength, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import Estimate, client_leakage, success_rate
from trilemma.estimation.tasks import Diverged
from trilemma.protections.specs import parse_protection
from trilemma.tuning.calibrating.outcomes import UNPROTECTED, Calibration, Outcome
from trilemma.tuning.choosing.pricing import Pricing, breached_cap
from trilemma.tuning.results.candidates import Candidate, Point, Tested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.estimation.recipes import Recipe
    from trilemma.protections.protection import Protection
    from trilemma.tuning.calibrating.gauge import Counts, Gauge, Measured
    from trilemma.tuning.choosing.families import Family
    from trilemma.tuning.surrogate.promises import Promise
    from trilemma.work.replay import Ask

__all__ = ["KEY_STATEMENT", "measured_candidate", "priced", "promised_candidate"]

KEY_STATEMENT: Final = (
    "The server reads nothing: ciphertexts under a key of {bits} bits that it does not hold. This "
    "is no measurement; it rests on the key."
)
_ENOUGH: Final = 20  # games of a client for limits of its own


def measured_candidate(gauge: Gauge, family: Family, pricing: Pricing, kappa: float) -> Candidate:
    """Calibrate a family, then measure what it costs at the strength found."""
    if family.seen == "nothing":
        return _cryptographic(gauge, family, pricing)
    found = gauge.measure(family)
    calibration = found.calibration
    rounds = gauge.rounds if family.whole_training else 1
    candidate = Candidate(
        name=family.name,
        basis="measured",
        feasible=calibration.outcome is Outcome.CERTIFIED,
        deployable=family.deployable,
        statement=_statement(family, found),
        rounds=rounds,
        symbol=family.symbol,
        units=calibration.units + sum(each.units for each in found.checks),
        points=tuple(
            Point(family.parameter(p.x), p.units, p.successes, p.stage, p.passed)
            for p in calibration.points
        ),
        tests=tuple(
            Tested(each.attack, family.parameter(each.x), each.units, each.successes, each.passed)
            for each in found.checks
        ),
        non_monotone=calibration.non_monotone is not None,
        smallest_leakage=_reached(calibration, kappa),
    )
    if calibration.x is None or found.counts is None:
        return candidate
    try:
        protection = family.protection(calibration.x)
    except InvalidInput as error:  # such as noise below the grid of a transport
        return replace(candidate, feasible=False, statement=f"Cannot be run: {error}")
    counts, confidence = found.counts, pricing.confidence
    worst, pooled = _worst_client(counts, confidence, kappa)
    candidate = replace(
        candidate,
        protection=protection.describe(),
        parameter=family.parameter(calibration.x),
        leakage=client_leakage(counts.successes, counts.units, confidence=confidence, kappa=kappa),
        success=success_rate(counts.successes, counts.units, confidence),
        worst_client=worst,
        pooled_clients=pooled,
        failed_units=counts.failed,
    )
    if rounds < gauge.rounds:
        only = "Tested for one round only, so it cannot be chosen for a whole training."
        candidate = replace(candidate, feasible=False, statement=f"{candidate.statement} {only}")
    return priced(candidate, gauge.ask, protection, pricing)


def promised_candidate(promises: Sequence[Promise], ask: Ask, pricing: Pricing) -> Candidate:
    """The paper's choice: the γ* of least objective by its own bounds, and what it leaks.

    Feasible unless the attacks contradict it; bounded masks are left out, as no federation
    should run them.
    """
    able = [
        each
        for each in promises
        if each.protection
        and each.measured is not None
        and each.objective is not None
        and each.mechanism != "secret-sharing"
        and (each.form != "printed" or each.mechanism == "compression")
    ]
    if not able:
        return Candidate(
            name="surrogate",
            basis="surrogate",
            feasible=False,
            deployable=True,
            statement="No optimum of the paper's closed forms can be run for this budget.",
        )
    best = min(able, key=lambda each: each.objective or 0.0)
    protection = parse_protection(best.protection or "none")
    candidate = Candidate(
        name=f"surrogate {best.mechanism}",
        basis="surrogate",
        feasible=best.measured is not None and best.measured.low <= best.promised,
        deployable=True,
        statement=(
            f"The paper's closed form, no guarantee: it promises a leakage of "
            f"{best.promised:.3g}, and the right record was picked in {best.successes} of "
            f"{best.units} games."
        ),
        protection=best.protection,
        symbol=best.symbol,
        parameter=best.parameter,
        leakage=best.measured,
        units=best.units,
    )
    return priced(candidate, ask, protection, pricing)


def _cryptographic(gauge: Gauge, family: Family, pricing: Pricing) -> Candidate:
    protection = family.protection(UNPROTECTED)
    candidate = Candidate(
        name=family.name,
        basis="cryptographic",
        feasible=True,
        deployable=True,
        statement=KEY_STATEMENT.format(bits=getattr(protection.transport, "bits", "?")),
        rounds=gauge.rounds,
        protection=protection.describe(),
    )
    return priced(candidate, gauge.ask, protection, pricing)


def priced(
    candidate: Candidate,
    ask: Ask,
    protection: Protection,
    pricing: Pricing,
    *,
    recipe: Recipe | None = None,
    without: Recipe | None = None,
) -> Candidate:
    """The candidate with its measured costs; one that diverges or breaks a cap is not feasible."""
    try:
        costs, objective = pricing.price(ask, protection, recipe=recipe, without=without)
    except Diverged as error:
        return replace(candidate, feasible=False, statement=f"{candidate.statement} But {error}")
    if breach := breached_cap(pricing.problem, costs):
        candidate = replace(candidate, feasible=False, statement=f"{candidate.statement} {breach}")
    return replace(candidate, costs=costs, objective=objective)


def _statement(family: Family, found: Measured) -> str:
    calibration = found.calibration
    if calibration.x is None:
        parts = [found.note, calibration.reason]
    else:
        at = "The bare sum of all clients"
        if calibration.x == UNPROTECTED and family.mechanism is not None:
            at = "No protection at all"
        elif family.mechanism is not None:
            at = f"{family.symbol} {family.parameter(calibration.x):.3g}".capitalize()
        tests = [each for each in found.checks if each.x == calibration.x and each.passed]
        counts = ", ".join(f"{each.attack} {each.successes} of {each.units}" for each in tests)
        shown = (
            f"{at}: every attack of the rung passed its own test on fresh games (right picks: "
            f"{counts}), which shows a rate of at most {calibration.p_max:.3g}."
        )
        parts = [found.note, shown]
    if not family.deployable:
        parts.append("Bounded masks are here to be measured; deploy secret-sharing instead.")
    return " ".join(filter(None, parts))


def _reached(calibration: Calibration, kappa: float) -> float | None:
    if calibration.smallest_upper_limit is None:
        return None
    return bernoulli_leakage(calibration.smallest_upper_limit, kappa)


def _worst_client(counts: Counts, confidence: float, kappa: float) -> tuple[Estimate | None, int]:
    """The largest leakage of a client with enough games, by limits that hold for all at once.

    Besides, how many clients have too few games for limits of their own.
    """
    enough = [each for each in counts.by_client.values() if each[0] >= _ENOUGH]
    few = len(counts.by_client) - len(enough)
    if not enough:
        return None, few
    each = 1 - (1 - confidence) / len(enough)
    clients = [client_leakage(hits, n, confidence=each, kappa=kappa) for n, hits in enough]
    return (
        Estimate(
            max(c.value for c in clients),
            max(c.low for c in clients),
            max(c.high for c in clients),
        ),
        few,
    )
