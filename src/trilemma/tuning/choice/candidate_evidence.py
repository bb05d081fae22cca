"""From evidence to a candidate: what a family leaks at its strength, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.errors import InvalidInput
from trilemma.game.estimates import Estimate, client_leakage, success_rate
from trilemma.tuning.calibration.outcomes import UNPROTECTED, Calibration
from trilemma.tuning.families.family import KEY_STATEMENT
from trilemma.tuning.families.pricing import Pricing, priced
from trilemma.tuning.results.candidate import Candidate

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.families.calibrator import Calibrator
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.families.game_counts import Counts, Measured

__all__ = ["measured_candidate", "worst_client_of"]

_MASKS: Final = "Bounded masks are here to be measured; deploy secret-sharing instead."
_ENOUGH: Final = 20  # games of a client for limits of its own


def measured_candidate(
    calibrator: Calibrator, family: Family, pricing: Pricing, kappa: float
) -> Procedure[Candidate]:
    """Calibrate a family, then measure what it costs at the strength found."""
    if family.seen == "nothing":
        return (yield from _cryptographic(calibrator, family, pricing))
    if not family.tested_over(calibrator.rounds):
        return (yield from _estimated(calibrator, family, pricing, kappa))
    found = yield from calibrator.measure(family)
    calibration = found.calibration
    candidate = Candidate(
        name=family.name,
        basis="measured",
        feasible=calibration.strength is not None,
        deployable=family.deployable,
        statement=_statement(family, found),
        rounds=calibrator.rounds,
        symbol=family.symbol,
        units=found.games,
        points=tuple(
            replace(point, strength=family.strength(point.strength))
            for point in calibration.points
        ),
        tests=found.tests,
        non_monotone=calibration.non_monotone is not None,
        smallest_leakage=_reached(calibration, kappa),
    )
    if calibration.strength is None or found.counts is None:
        return candidate
    try:
        protection = family.protection(calibration.strength)
    except InvalidInput as error:  # such as noise below the grid of a transport
        return replace(candidate, feasible=False, statement=f"Cannot be run: {error}")
    counts, confidence = found.counts, pricing.confidence
    worst, leakiest, pooled = worst_client_of(counts, confidence, kappa)
    success = success_rate(counts.successes, counts.units, confidence)
    candidate = replace(
        candidate,
        protection=protection.describe(),
        strength=family.strength(calibration.strength),
        leakage=client_leakage(counts.successes, counts.units, confidence=confidence, kappa=kappa),
        success=success,
        fresh=counts.units,
        fresh_right=counts.successes,
        worst_client=worst,
        leakiest_client=leakiest,
        pooled_clients=pooled,
        failed_units=counts.failed,
    )
    if success.low > calibration.p_max:
        return replace(candidate, feasible=False, statement=_withdrawn(counts, success, found))
    return (yield from priced(candidate, protection, pricing))


def _withdrawn(counts: Counts, success: Estimate, found: Measured) -> str:
    return (
        f"Withdrawn: every attack passed its test, but in {counts.units} fresh games after that "
        f"{counts.strongest} guessed the right record {counts.successes} times, a rate of at "
        "least "
        f"{success.low:.3g} where {found.calibration.p_max:.3g} is allowed."
    )


def _estimated(
    calibrator: Calibrator, family: Family, pricing: Pricing, kappa: float
) -> Procedure[Candidate]:
    """What cannot be chosen for a whole training: where one round of it would meet the budget."""
    x, counts = yield from calibrator.estimate(family)
    won, games = counts.successes, counts.units
    candidate = _untested(
        *(family, x),
        basis="measured",
        feasible=False,
        statement=(
            f"Estimated for one round only ({calibrator.suite.lead} is right in {won} of "
            f"{games} games "
            f"nearby), so it cannot be chosen for a whole training."
            + (f" {_MASKS}" if not family.deployable else "")
        ),
        leakage=client_leakage(won, games, confidence=pricing.confidence, kappa=kappa),
        success=success_rate(won, games, pricing.confidence),
        units=games,
        failed_units=counts.failed,
    )
    return (yield from priced(candidate, family.protection(x), pricing))


def _cryptographic(
    calibrator: Calibrator, family: Family, pricing: Pricing
) -> Procedure[Candidate]:
    protection = family.protection(UNPROTECTED)
    candidate = _untested(
        *(family, UNPROTECTED),
        basis="cryptographic",
        feasible=True,
        statement=KEY_STATEMENT.format(bits=getattr(protection.transport, "bits", "?")),
        rounds=calibrator.rounds,
    )
    return (yield from priced(candidate, protection, pricing))


def _untested(family: Family, x: float, **found: Any) -> Candidate:
    """What is known of a family at x without a test of its own."""
    return Candidate(
        name=family.name,
        deployable=family.deployable,
        protection=family.protection(x).describe(),
        symbol=family.symbol,
        strength=family.strength(x),
        **found,
    )


def _statement(family: Family, found: Measured) -> str:
    calibration = found.calibration
    if calibration.strength is None:
        parts = [found.note, calibration.reason]
    else:
        at = "The bare sum of all clients"
        if calibration.strength == UNPROTECTED:
            at = "No protection at all" if family.carrier == "plain" else at
        elif family.mechanism is not None:
            at = f"{family.symbol} {family.strength(calibration.strength):.3g}".capitalize()
        own = family.strength(calibration.strength)
        tests = [test for test in found.tests if test.strength == own and test.passed]
        counts = ", ".join(f"{test.attack} {test.recovered} of {test.units}" for test in tests)
        shown = (
            f"{at}: every attack that was tried passed its own test on fresh games (right "
            f"guesses: {counts}), which shows a rate of at most {calibration.p_max:.3g}."
        )
        if (fresh := found.counts) is not None:
            shown += (
                f" In {fresh.units} games more, of a number fixed beforehand, {fresh.strongest} "
                f"guessed right {fresh.successes} times."
            )
        parts = [found.note, shown]
    if not family.deployable:
        parts.append(_MASKS)
    return " ".join(filter(None, parts))


def _reached(calibration: Calibration, kappa: float) -> float | None:
    if calibration.smallest_upper_limit is None:
        return None
    return bernoulli_leakage(calibration.smallest_upper_limit, kappa)


def worst_client_of(
    counts: Counts, confidence: float, kappa: float
) -> tuple[Estimate | None, int | None, int]:
    """The largest leakage of a client with enough games, by limits that hold for all at once.

    Besides, which client that is, and how many have too few games for limits of their own.
    """
    enough = {k: value for k, value in counts.by_client.items() if value[0] >= _ENOUGH}
    few = len(counts.by_client) - len(enough)
    if not enough:
        return None, None, few
    sure = 1 - (1 - confidence) / len(enough)
    clients = {
        k: client_leakage(hits, n, confidence=sure, kappa=kappa) for k, (n, hits) in enough.items()
    }
    ends = ([getattr(c, end) for c in clients.values()] for end in ("value", "low", "high"))
    return Estimate(*map(max, ends)), max(clients, key=lambda k: clients[k].value), few
