"""From evidence to a candidate: what a mechanism leaks at its strength, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.estimation.leakage import Estimate, client_leakage, success_rate
from trilemma.estimation.tasks import Diverged
from trilemma.protections.specs import parse_protection
from trilemma.tuning.calibrating.outcomes import UNPROTECTED, Calibration, Outcome
from trilemma.tuning.choosing.pricing import Pricing, breached_cap
from trilemma.tuning.results.verdict import Candidate, Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.protections.protection import Protection
    from trilemma.tuning.calibrating.gauge import Counts, Gauge, Measured
    from trilemma.tuning.certificate.certify import Certificate
    from trilemma.tuning.choosing.families import Family
    from trilemma.tuning.surrogate.promises import Promise
    from trilemma.work.replay import Ask

__all__ = [
    "KEY_STATEMENT",
    "SYMBOLS",
    "certified_candidate",
    "measured_candidate",
    "promised_candidate",
]

SYMBOLS = {"variance": "noise variance", "keep": "share kept", "bound": "mask bound"}
KEY_STATEMENT = (
    "The server reads nothing: ciphertexts under a key of {bits} bits that it does not hold. This "
    "is no measurement; it rests on the key."
)
CLIP_RULES = {
    "stated": "the stated one",
    "median": "the median of the update norms",
    "utility": "the one of {tried} tried that trains best",
}


def measured_candidate(
    gauge: Gauge, family: Family, pricing: Pricing, *, sum_is_priced: bool = False
) -> Candidate:
    """Calibrate a family, then measure what it costs at the strength found.

    `sum_is_priced` says that secret sharing is a candidate of its own: where the bare sum is
    within the budget, a family that would add something to it need not be priced.
    """
    if family.seen == "nothing":
        return _cryptographic(gauge.ask, family, pricing)
    found = gauge.measure(family)
    calibration = found.calibration
    candidate = Candidate(
        name=family.name,
        basis="measured",
        feasible=calibration.outcome is Outcome.CERTIFIED,
        deployable=family.deployable,
        statement=_statement(family, found),
        symbol=SYMBOLS.get(family.knob or ""),
        units=calibration.units,
        points=tuple(
            Point(family.parameter(p.x), p.units, p.successes, p.stage, p.passed)
            for p in calibration.points
        ),
        non_monotone=calibration.non_monotone is not None,
        smallest_leakage=_reached(calibration),
    )
    if calibration.x is None or found.counts is None:
        return candidate
    protection = family.protection(calibration.x)
    counts, confidence = found.counts, pricing.confidence
    candidate = replace(
        candidate,
        protection=protection.describe(),
        parameter=family.parameter(calibration.x),
        leakage=client_leakage(counts.successes, counts.units, confidence=confidence),
        worst_client=_worst_client(counts, confidence),
        any_record=success_rate(counts.any_record, counts.units, confidence),
        by_attack=counts.by_attack,
        failed_units=counts.failed,
    )
    bare = calibration.x == UNPROTECTED and family.transport != "plain"
    if bare and family.knob and sum_is_priced:
        return candidate
    weighted = family.setting.equal_weights or family.deployable
    return _priced(candidate, gauge.ask, protection, pricing, weighted=weighted)


def certified_candidate(
    certificate: Certificate, name: str, ask: Ask, pricing: Pricing
) -> Candidate:
    """What a certificate costs."""
    privacy, sure = certificate.privacy, certificate.kappa_confidence
    known = "stated" if sure is None else f"measured, at confidence {sure:g}"
    rule = CLIP_RULES[certificate.clip_rule].format(tried=len(certificate.clips_tried))
    candidate = Candidate(
        name=name,
        basis="certified",
        feasible=True,
        deployable=True,
        statement=(
            f"Any attacker recovers at most {certificate.success:.3g} of the records over "
            f"{certificate.rounds} round(s), if a blind guess recovers at most "
            f"{certificate.kappa.high:.3g} ({known}); it amounts to "
            f"({privacy.epsilon:.3g}, {privacy.delta:.1g})-differential privacy. The clip norm "
            f"{certificate.clip:.3g} is {rule}."
        ),
        protection=certificate.protection,
        symbol="noise sd (seen)",
        parameter=certificate.noise,
        leakage=Estimate(certificate.leakage, 0.0, certificate.leakage),
        certificate=certificate,
    )
    return _priced(candidate, ask, parse_protection(certificate.protection), pricing)


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
            f"{best.promised:.3g}, and {best.successes} of {best.units} units were recovered."
        ),
        protection=best.protection,
        symbol=best.symbol,
        parameter=best.parameter,
        leakage=best.measured,
        units=best.units,
    )
    return _priced(candidate, ask, protection, pricing)


def _cryptographic(ask: Ask, family: Family, pricing: Pricing) -> Candidate:
    protection = family.protection(UNPROTECTED)
    candidate = Candidate(
        name=family.name,
        basis="cryptographic",
        feasible=True,
        deployable=True,
        statement=KEY_STATEMENT.format(bits=getattr(protection.transport, "bits", "?")),
        protection=protection.describe(),
    )
    return _priced(candidate, ask, protection, pricing)


def _priced(
    candidate: Candidate,
    ask: Ask,
    protection: Protection,
    pricing: Pricing,
    *,
    weighted: bool = True,
) -> Candidate:
    try:
        costs, objective = pricing.price(ask, protection, weighted=weighted)
    except Diverged as error:
        return replace(candidate, feasible=False, statement=f"{candidate.statement} But {error}")
    if breach := breached_cap(pricing.problem, costs):
        candidate = replace(candidate, feasible=False, statement=f"{candidate.statement} {breach}")
    return replace(candidate, costs=costs, objective=objective)


def _statement(family: Family, found: Measured) -> str:
    reason = found.calibration.reason
    x = found.calibration.x
    if x is not None and x != UNPROTECTED:
        # The calibration knows strengths relative to its warm start; people want the value.
        at = f"{SYMBOLS[family.knob or '']} {family.parameter(x):.4g}"
        reason = reason.replace(f"10^{x:.3f} times the warm start", at)
    parts = [found.note, reason]
    if not family.deployable:
        parts.append("Bounded masks are here to be measured; deploy secret-sharing instead.")
    return " ".join(filter(None, parts))


def _reached(calibration: Calibration) -> float | None:
    if calibration.smallest_upper_limit is None:
        return None
    return bernoulli_leakage(calibration.smallest_upper_limit)


def _worst_client(counts: Counts, confidence: float) -> Estimate:
    """The largest leakage of a client, by limits that hold for all clients at once."""
    each = 1 - (1 - confidence) / len(counts.by_client)
    clients = [
        client_leakage(hits, units, confidence=each) for units, hits in counts.by_client.values()
    ]
    return Estimate(
        max(c.value for c in clients), max(c.low for c in clients), max(c.high for c in clients)
    )
