"""Algorithms 3 and 4: beliefs from counts of recovered records, and C₁, ξ and C₂ from beliefs.

f̂(d|w_m) = M_d/(S·T), where M_d counts the attempts of T on the update at w_m that recovered d,
and d₀ stands for a record that was not recovered; f̂^O is the mean over the M models, and
C₁ = (1/K) Σ_k √(JS(f̂^O_k ‖ f_D)/ln 2).

The prior f_D is left open in the paper. Here it is what an attacker reaches without looking: mass
κ, the rate of the best blind guess, shared by the records (by the classes, as frequent as they
are), and 1 - κ on d₀. ξ = max |log(f̂(d|w_m)/f_D(d))| is infinite where a record or d₀ was never
seen, which is the rule (departure E6): then half a count is added to every outcome. Such values
say as much about the number of attempts as about the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.beliefs.belief import leakage, system_leakage
from trilemma.paper_framework.surrogate_bounds import (
    Constants,
    chernoff_error,
    chernoff_sample_size,
    log_c2,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.beliefs.blind_guess import BlindGuess
    from trilemma.game.recovering.recoveries import Outcomes

    Floats = NDArray[np.float64]

__all__ = ["Beliefs", "EstimatedConstants", "blind_prior", "constants_of"]

_RELATIVE_ERROR: Final = 0.1  # for which the lemma's attempts are told
_LARGEST: Final = 700.0  # exp() of more is beyond all floats


@dataclass(frozen=True)
class Beliefs:
    """What the beliefs of all clients over the same outcomes say.

    `observed` [K][outcomes + d₀] is f̂^O, `prior` f_D. `xi` and `c2` are None where they are not
    finite, and `reason` says why.
    """

    c1: float
    c1_clients: tuple[float, ...]
    xi: float | None
    c2: float | None
    reason: str
    xi_smoothed: float
    c2_smoothed: float
    observed: tuple[tuple[float, ...], ...]
    prior: tuple[float, ...]

    @property
    def constants(self) -> Constants:
        """What Algorithm 1 goes on with: C₂ as it is, or smoothed where that is not finite."""
        return Constants(self.c1, self.c2_smoothed if self.c2 is None else self.c2)


@dataclass(frozen=True)
class EstimatedConstants:
    """Everything that `trilemma estimate` says: Algorithm 3 by datum and Algorithm 4 by class.

    `attempts` T on each of the `models` M and one batch of `records` S a client. `recovered` is
    the share of records recovered, over all attempts. By the Chernoff lemma no belief of any
    client errs by more than `relative_error`, at the confidence; None where the lemma promises
    nothing. `attempts_needed` is the M·T that it asks for a relative error of .1.
    """

    by_datum: Beliefs
    by_class: Beliefs | None
    kappa: float
    clients: int
    models: int
    attempts: int
    records: int
    recovered: float
    diverged: int
    relative_error: float | None
    attempts_needed: int | None
    confidence: float


def blind_prior(blind: BlindGuess | None, trials: int) -> float:
    """κ with half a success and half a failure added.

    Where no blind guess is known, as if none had succeeded in so many trials.
    """
    successes, trials = (0, trials) if blind is None else (blind.successes, blind.trials)
    return (successes + 0.5) / (trials + 1)


def constants_of(
    outcomes: Outcomes,
    blind: BlindGuess | None,
    *,
    classes: int | None = None,
    class_shares: Sequence[float] = (),
    confidence: float = 0.95,
) -> EstimatedConstants:
    """The constants that follow from T attempts at each model on one batch a client.

    `class_shares` say how frequent the classes are before anything is seen.
    """
    attempts, size = outcomes.counted.shape[1:]
    kappa = blind_prior(blind, outcomes.counted.size)
    clients = np.unique(outcomes.client)
    models = len(outcomes.client) // len(clients)
    even = np.full(size, 1 / size)
    shares = np.asarray(class_shares, dtype=np.float64)
    client, trials = outcomes.client, attempts * size
    by_datum = _beliefs(client, outcomes.per_datum(), even, kappa, trials, "a record")
    by_class = None
    if classes is not None:
        table = outcomes.per_class(classes)
        by_class = _beliefs(client, table, shares, kappa, trials, "a class")
    rates = [
        rate for row in by_datum.observed for rate in (*(size * f for f in row[:-1]), row[-1])
    ]
    drawn, promised = models * attempts, min(rates) > 0
    return EstimatedConstants(
        by_datum=by_datum,
        by_class=by_class,
        kappa=kappa,
        clients=len(clients),
        models=models,
        attempts=attempts,
        records=size,
        recovered=float(outcomes.counted.mean()),
        diverged=int(outcomes.failed.sum()),
        relative_error=chernoff_error(drawn, 1 - confidence, rates) if promised else None,
        attempts_needed=chernoff_sample_size(_RELATIVE_ERROR, 1 - confidence, rates)
        if promised
        else None,
        confidence=confidence,
    )


def _beliefs(
    client: NDArray[np.int64],
    table: Floats,
    shares: Floats,
    kappa: float,
    trials: int,
    outcome: str,
) -> Beliefs:
    """C₁, ξ and C₂ from f̂ [units, outcomes + d₀], each from so many trials."""
    prior = np.append(kappa * shares / shares.sum(), 1 - kappa)
    observed = [table[client == k].mean(axis=0) for k in np.unique(client)]
    per_client = [leakage(belief, prior) for belief in observed]
    smoothed = (table * trials + 0.5) / (trials + table.shape[1] / 2)
    xi = None
    if table.min() > 0:
        xi = float(np.abs(np.log(table / prior)).max())
    xi_smoothed = float(np.abs(np.log(smoothed / prior)).max())
    unseen = outcome if table[:, :-1].min() == 0 else "d0 (nothing recovered)"
    return Beliefs(
        c1=system_leakage(per_client)[0],
        c1_clients=tuple(per_client),
        xi=xi,
        c2=None if xi is None else _c2(xi),
        reason="" if xi is not None else f"{unseen} was never seen at some model",
        xi_smoothed=xi_smoothed,
        c2_smoothed=_c2(xi_smoothed),
        observed=tuple(tuple(row.tolist()) for row in observed),
        prior=tuple(prior.tolist()),
    )


def _c2(xi: float) -> float:
    return math.exp(min(log_c2(xi), _LARGEST)) if xi > 0 else 0.0
