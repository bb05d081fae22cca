"""C₁, ξ and C₂ of a scenario: what unprotected updates leak, and how far belief can move.

C₁ is the leakage of unprotected updates. ξ = max |log(f̂ / prior)| and C₂ = (e^{2ξ} - 1)/(2√ln 2)
are infinite whenever an outcome was never seen, which is the rule rather than the exception
(departure E6): they are then reported as "not finite" with the reason, and a smoothed value, which
says more about the numbers of trials than about the data, stands beside them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.beliefs.belief import leakage, system_leakage
from trilemma.beliefs.blind import BlindGuess, blind_guess, default_threshold
from trilemma.beliefs.recovery import Criterion
from trilemma.entropy import Seeded
from trilemma.estimation.leakage import (
    Estimate,
    client_leakage,
    max_leakage,
    mean_leakage,
    success_rate,
)
from trilemma.estimation.recovering.recoveries import Outcomes
from trilemma.estimation.scenario import Scenario
from trilemma.paper.bounds import c1_error_bound, log_c2

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = [
    "ClientConstants",
    "EstimatedConstants",
    "Guess",
    "LiteralConstants",
    "LogRatio",
    "choose_criterion",
    "constants_of",
    "largest_log_ratio",
    "literal_constants",
]

ATTACK_WORKS: Final = 0.5
"""A control that recovers less says that the attack failed, not that the data is safe."""


@dataclass(frozen=True)
class Guess:
    """When a record counts as recovered, and how often a blind guess does (None: not known)."""

    criterion: Criterion
    kappa: BlindGuess | None


@dataclass(frozen=True)
class LogRatio:
    """ξ and C₂; `xi` and `c2` are None where they are not finite, and `reason` says why."""

    xi: float | None
    c2: float | None
    reason: str | None
    xi_smoothed: float
    c2_smoothed: float


@dataclass(frozen=True)
class ClientConstants:
    """One client's success rate and C₁, and the error bounds for the latter.

    `relative_error` is the largest relative error of a belief inside the interval of the success
    rate; the paper's bound and the corrected one (E9) follow from it, None where it reaches 1.
    """

    client: int
    units: int
    successes: int
    failed: int
    success: Estimate
    c1: Estimate
    relative_error: float | None
    error_printed: float | None
    error_corrected: float | None


@dataclass(frozen=True)
class EstimatedConstants:
    """Everything that `trilemma estimate` says.

    `success` is the pooled rate for one record a unit, tagged before the attack; `success_any`
    that of at least one record of a unit; `success_all` the plain share of all records. A unit
    has `records` records (S). `models` None: every unit had a model of its own.
    """

    c1: Estimate
    c1_max: Estimate
    ratio: LogRatio
    kappa: BlindGuess | None
    criterion: Criterion
    success: Estimate
    success_any: Estimate
    success_all: float
    clients: tuple[ClientConstants, ...]
    units: int
    records: int
    models: int | None
    confidence: float

    @property
    def attack_failed(self) -> bool:
        """Whether the unprotected attack recovers too little for C₁ to mean anything."""
        return self.success.value < ATTACK_WORKS

    def as_json(self) -> dict[str, Any]:
        """The same as plain values; what is not finite is null, with its reason."""
        kappa = None
        if self.kappa is not None:
            kappa = {
                **asdict(self.kappa),
                "value": self.kappa.rate,
                "high_in_batch": self.kappa.high_in_batch(self.records),
            }
        return {
            "c1": asdict(self.c1),
            "c1_max": asdict(self.c1_max),
            "xi": self.ratio.xi,
            "c2": self.ratio.c2,
            "c2_reason": self.ratio.reason,
            "xi_smoothed": self.ratio.xi_smoothed,
            "c2_smoothed": self.ratio.c2_smoothed,
            "kappa": kappa,
            "criterion": asdict(self.criterion),
            "units": self.units,
            "records": self.records,
            "models": self.models,
            "success": asdict(self.success),
            "success_any": asdict(self.success_any),
            "success_all": self.success_all,
            "attack_failed": self.attack_failed,
            "confidence": self.confidence,
            "clients": [asdict(client) for client in self.clients],
        }


@dataclass(frozen=True)
class LiteralConstants:
    """The paper's reading: beliefs over a fixed batch and d₀ against a uniform prior.

    Inverted: a uniform prior gives an attack that never succeeds a larger C₁ than one that always
    does. For comparison only.
    """

    c1: float
    c1_max: float
    xi: float | None


def choose_criterion(
    scenario: Scenario,
    criterion: Criterion | None = None,
    *,
    seed: int = 0,
    confidence: float = 0.95,
) -> Guess:
    """The criterion asked for, the scenario's own, or the default, and its blind-guess rate.

    `confidence` is that of the rate's limits.
    """
    asked = criterion or scenario.criterion or Criterion.of(scenario.input_spec)
    pool = scenario.pooled()
    inputs = pool.inputs.numpy()
    labels = None if scenario.classes is None else pool.labels.numpy()
    entropy = Seeded(seed).child("blind guess")
    if asked is None:
        found = default_threshold(
            inputs, labels, scenario.input_spec, entropy=entropy, confidence=confidence
        )
        return Guess(Criterion("psnr", found.threshold), found)
    asked.check(scenario.input_spec)
    if asked.metric != "psnr":
        return Guess(asked, None)
    found = blind_guess(
        inputs,
        labels,
        scenario.input_spec,
        threshold=asked.threshold,
        entropy=entropy,
        confidence=confidence,
    )
    return Guess(asked, found)


def constants_of(
    outcomes: Outcomes, guess: Guess, *, models: int | None = None, confidence: float = 0.95
) -> EstimatedConstants:
    """The constants that follow from unprotected outcomes."""
    tagged, any_record = outcomes.tagged(), outcomes.counted[:, 0].any(axis=1)
    numbers = np.unique(outcomes.client)
    rows = [outcomes.client == k for k in numbers]
    hits = [int(tagged[row].sum()) for row in rows]
    trials = int(rows[0].sum())  # clients take turns, so all have as many units
    clients = tuple(
        _client(int(k), trials, hit, int(outcomes.failed[row, 0].sum()), confidence)
        for k, row, hit in zip(numbers, rows, hits, strict=True)
    )
    return EstimatedConstants(
        c1=mean_leakage(hits, trials, confidence=confidence),
        c1_max=max_leakage(hits, trials, confidence=confidence),
        ratio=largest_log_ratio(hits, trials, guess.kappa),
        kappa=guess.kappa,
        criterion=guess.criterion,
        success=success_rate(int(tagged.sum()), len(tagged), confidence),
        success_any=success_rate(int(any_record.sum()), len(tagged), confidence),
        success_all=float(outcomes.counted[:, 0].mean()),
        clients=clients,
        units=len(tagged),
        records=outcomes.labels.shape[1],
        models=models,
        confidence=confidence,
    )


def _client(
    client: int, trials: int, hits: int, failed: int, confidence: float
) -> ClientConstants:
    rate = success_rate(hits, trials, confidence)
    error = _relative_error(rate)
    return ClientConstants(
        client=client,
        units=trials,
        successes=hits,
        failed=failed,
        success=rate,
        c1=client_leakage(hits, trials, confidence=confidence),
        relative_error=error,
        error_printed=None if error is None else c1_error_bound(error, "printed"),
        error_corrected=None if error is None else c1_error_bound(error, "corrected"),
    )


def _relative_error(rate: Estimate) -> float | None:
    """Largest |f̂ - f| / f over "recovered" and "nothing", f anywhere in the interval."""
    errors = []
    for value, low, high in (
        (rate.value, rate.low, rate.high),
        (1 - rate.value, 1 - rate.high, 1 - rate.low),
    ):
        if low <= 0:
            return None
        errors += [value / low - 1, 1 - value / high]
    worst = max(errors)
    return worst if worst < 1 else None


def largest_log_ratio(hits: Sequence[int], trials: int, kappa: BlindGuess | None) -> LogRatio:
    """ξ = max over clients and outcomes of |log(f̂ / prior)|, prior κ on the data, 1 - κ on d₀.

    Smoothed: half a success and half a failure are added to every count. Without a measured κ the
    prior is the half success alone.
    """
    prior_hits, prior_trials = (kappa.successes, kappa.trials) if kappa else (0, trials)
    worst = max(
        _log_ratio((hit + 0.5) / (trials + 1), (prior_hits + 0.5) / (prior_trials + 1))
        for hit in hits
    )
    smoothed = math.exp(min(log_c2(worst), 700.0)) if worst > 0 else 0.0
    reason = _why_infinite(hits, trials, kappa)
    if reason or kappa is None:
        return LogRatio(None, None, reason, worst, smoothed)
    xi = max(_log_ratio(hit / trials, kappa.rate) for hit in hits)
    if xi == 0:
        return LogRatio(0.0, 0.0, None, worst, smoothed)
    if log_c2(xi) > 700:
        return LogRatio(
            xi, None, f"C2 overflows: its logarithm is {log_c2(xi):.6g}", worst, smoothed
        )
    return LogRatio(xi, math.exp(log_c2(xi)), None, worst, smoothed)


def _log_ratio(belief: float, prior: float) -> float:
    return max(abs(math.log(belief / prior)), abs(math.log((1 - belief) / (1 - prior))))


def _why_infinite(hits: Sequence[int], trials: int, kappa: BlindGuess | None) -> str | None:
    if kappa is None:
        return "the blind-guess rate is known for PSNR only"
    if kappa.successes == 0:
        return f"no blind guess succeeded in {kappa.trials} trials, so the prior of the data is 0"
    if kappa.successes == kappa.trials:
        return "the blind guess always succeeded, so the prior of 'nothing recovered' is 0"
    if trials in hits:
        return f"a client's records were recovered from all of {trials} updates"
    if 0 in hits:
        return f"a client's records were recovered from none of {trials} updates"
    return None


def literal_constants(outcomes: Outcomes) -> LiteralConstants:
    """C₁ and ξ as printed, from outcomes measured with `literal`."""
    table = outcomes.per_datum()
    size = table.shape[1]
    uniform = np.full(size, 1 / size)
    beliefs = [table[outcomes.client == k].mean(axis=0) for k in np.unique(outcomes.client)]
    mean, worst = system_leakage([leakage(belief, uniform) for belief in beliefs])
    smallest = min(float(belief.min()) for belief in beliefs)
    xi = None
    if smallest > 0:
        xi = max(float(np.abs(np.log(belief * size)).max()) for belief in beliefs)
    return LiteralConstants(mean, worst, xi)
