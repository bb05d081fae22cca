"""The claim "no attacker, over the whole training": p ≤ 1 - f(1/N), and the noise that it needs.

An attacker guesses which of N candidates was used. Its guesses exclude each other, so with the
record absent they are right at 1/N on average; 1 - f is concave, so with the record present they
are right at most at 1 - f(1/N) on average, whatever the attacker knows or computes. f is that of
a record that is used in one round at least (`trilemma.accounting.trade_off`). Leakage is then at
most H_{1/N}(p) = √(JS(Bern(p), Bern(1/N)) / ln 2).

The claim holds on these conditions, which a deployment must keep; each is needed.

- Every record's gradient is clipped before the mean, and noise is added by the clients; z counts
  the noise of honest survivors only (`trilemma.accounting.noise_multiplier`).
- Poisson sampling for secret participation, each record by itself, from the system's generator.
  The denominator and the weights are public constants, and an empty batch still sends noise.
- No count, loss or metric that depends on the batch leaves the node unprotected.
- The client has no memory of records: no momentum, error feedback, batch-norm statistics or loss
  that couples records, and a repeated round is a round.
- Sampling of clients does not amplify: the server sees the cohort.
- Fixed point is fine enough and wide enough (`trilemma.accounting.rounding`).
- Clients differ in q and z: the claim is that of the worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import brentq

from trilemma.accounting.sampled_training import Participation, Training
from trilemma.accounting.trade_off import epsilon_at, guess_bound, membership_bound
from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.errors import InvalidInput
from trilemma.quantities import between

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "epsilon",
    "leakage_bound",
    "leakage_supremum",
    "noise_multiplier_for",
    "success_bound",
    "true_positive_rate",
]

_LEAST_NOISE: Final = 0.01
_MOST_NOISE: Final = 1e6
_SHARE: Final = 1e-4  # by which the noise may exceed the least, so as to end on the safe side
_GAP: Final = 1e-4  # by which the supremum over N may exceed the true one
_EVERY_UP_TO: Final = 64  # candidate sets looked at one by one; larger ones in steps of a tenth
_LARGEST_CANDIDATE_SET: Final = 10**12


def success_bound(training: Training, candidates: float, *, remainder: float = 0.0) -> float:
    """p ≤ 1 - f(1/N): the rate at which any attacker guesses the record out of N candidates.

    Candidates of unequal prior probability: N = 1 / the largest of them. `remainder`, which is
    added, is what fixed point leaves unproved (`trilemma.accounting.rounding`).

    >>> round(success_bound(Training(150, 4 / 150, 0.52, "secret"), 100), 3)
    0.206
    >>> round(success_bound(Training(1, 1.0, noise_multiplier=1.0), 100), 4)
    0.0924
    """
    sizes = np.array([_check_candidates(candidates)])
    return float(_success(training, sizes, _check_remainder(remainder))[0])


def leakage_bound(training: Training, candidates: float, *, remainder: float = 0.0) -> float:
    """H_{1/N}(1 - f(1/N)), which the leakage of a candidate set of N candidates does not exceed.

    >>> round(leakage_bound(Training(150, 4 / 150, 0.513, "secret"), 100), 2)
    0.3
    """
    success = success_bound(training, candidates, remainder=remainder)
    return bernoulli_leakage(success, 1 / candidates)


def leakage_supremum(training: Training, *, remainder: float = 0.0) -> tuple[float, int]:
    """The largest leakage bound over all N ≥ 2, and an N (nearly) attaining it.

    For a < N < b the leakage is at most H_{1/b}(1 - f(1/a)), as H falls with κ and rises with p;
    intervals are halved until none could hold more than 1e-4 above the largest found, and what
    they could hold is returned.
    """
    sizes = list(range(2, _EVERY_UP_TO))
    while sizes[-1] < _LARGEST_CANDIDATE_SET:
        sizes.append(math.ceil(sizes[-1] * 1.1))
    slack = _check_remainder(remainder)
    found = _success(training, np.array(sizes, dtype=np.float64), slack)
    success = dict(zip(sizes, found, strict=True))
    best, at = _largest_leakage(success)
    # Beyond the last size κ > 0 and p is at most the last p.
    rest = bernoulli_leakage(float(success[sizes[-1]]), 0.0)
    intervals = [(a, b) for a, b in pairwise(sizes) if b - a > 1]
    while intervals:
        held = {(a, b): bernoulli_leakage(float(success[a]), 1 / b) for a, b in intervals}
        open_ones = [pair for pair, most in held.items() if most > best + _GAP]
        rest = max([rest, *(most for most in held.values() if most <= best + _GAP)])
        if not open_ones:
            break
        middles = sorted({(a + b) // 2 for a, b in open_ones})
        found = _success(training, np.array(middles, dtype=np.float64), slack)
        new = dict(zip(middles, found, strict=True))
        success |= new
        best, at = max((best, at), _largest_leakage(new))
        halves = [half for a, b in open_ones for half in ((a, (a + b) // 2), ((a + b) // 2, b))]
        intervals = [(a, b) for a, b in halves if b - a > 1]
    return min(1.0, max(best, rest)), at


def noise_multiplier_for(
    budget: float,
    *,
    rounds: int,
    q: float,
    participation: Participation = "known",
    candidates: float | None = None,
    records_of_person: int = 1,
    remainder: float = 0.0,
) -> float:
    """The least z whose leakage is at most `budget`, up to 0.01 % and rounded up.

    For one number N of candidates, or, without it, for every N; `remainder` as in `success_bound`.

    >>> round(noise_multiplier_for(0.3, rounds=150, q=1.0), 3)
    13.516
    """
    between("budget (largest tolerated leakage, normalised)", budget)
    if candidates is not None:
        _check_candidates(candidates)

    def excess(log_noise: float, who: Participation) -> float:
        training = Training(rounds, q, math.exp(log_noise), who, records_of_person)
        if candidates is None:
            return leakage_supremum(training, remainder=remainder)[0] - budget
        return leakage_bound(training, candidates, remainder=remainder) - budget

    # Known participation is a closed form and never needs less, so it ends the search cheaply.
    low, high = math.log(_LEAST_NOISE), math.log(_MOST_NOISE)
    if excess(high, "known") > 0:
        raise InvalidInput(
            f"no noise multiplier up to {_MOST_NOISE:g} meets a budget of {budget} over {rounds} "
            f"rounds; raise the budget, or train for fewer rounds."
        )
    if excess(low, participation) <= 0:
        return _LEAST_NOISE
    high = _safe_root(lambda x: excess(x, "known"), low, high)
    if participation == "known":
        return math.exp(high)
    return math.exp(_safe_root(lambda x: excess(x, "secret"), low, high))


def epsilon(training: Training, delta: float) -> float:
    """ε of (ε, δ)-differential privacy for one record more or less: the larger of both orders.

    >>> round(epsilon(Training(150, 4 / 150, 0.52, "secret"), 1e-5), 1)
    12.1
    """
    return epsilon_at(training, between("delta", delta))


def true_positive_rate(training: Training, false_positive_rate: float = 0.01) -> float:
    """The largest share of members that a membership test finds at a false positive rate.

    >>> round(true_positive_rate(Training(150, 4 / 150, 0.52, "secret")), 3)
    0.206
    """
    return membership_bound(training, between("false_positive_rate", false_positive_rate))


def _success(
    training: Training, candidates: NDArray[np.float64], remainder: float
) -> NDArray[np.float64]:
    return np.minimum(1.0, guess_bound(training, 1 / candidates) + remainder)


def _largest_leakage(success: Mapping[int, float]) -> tuple[float, int]:
    return max((bernoulli_leakage(float(p), 1 / size), size) for size, p in success.items())


def _safe_root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Just above the root of a falling function that is positive at `low`, not at `high`."""
    if excess(high) == 0:
        return high
    root = float(brentq(excess, low, high, xtol=_SHARE / 4)) + _SHARE / 2
    while root < high and excess(root) > 0:
        root += _SHARE / 4
    return min(root, high)


def _check_candidates(candidates: float) -> float:
    if not (math.isfinite(candidates) and candidates > 1):
        raise InvalidInput(
            "candidates (size of the candidate set) must be a finite number above 1, got "
            f"{candidates}."
        )
    return candidates


def _check_remainder(remainder: float) -> float:
    if not 0 <= remainder < 1:
        raise InvalidInput(
            f"remainder (what fixed point adds to a success rate) must lie in [0, 1), got "
            f"{remainder}."
        )
    return remainder
