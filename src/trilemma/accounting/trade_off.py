"""How well one record that is used can be told from its absence, over a whole training.

P is the distribution of all that is seen with the record present, Q with it absent (zeroed out:
same denominator, sampling and weights), f(α) the least probability of missing P for a test that
accuses Q with probability α. Then for every ε

    1 - f(α) ≤ e^ε α + δ(ε),   δ(ε) = sup over events E of P(E) - e^ε Q(E),

with equality at the best ε. The order matters: with P and Q exchanged the bound is false.

Claims are about a record that is used in one round at least. With u = 1 - (1 - q)^R the
probability of that, P = (1 - u) Q + u P', P' the distribution given that it is used; so what holds
of P' follows exactly: 1 - f'(α) = α + (1 - f(α) - α) / u.

One round is P = Σ_m Bin(m; k, q) N(m/z, 1) against Q = N(0, 1). Rounds are composed by
dp-accounting's privacy-loss distributions, pessimistic by "connect the dots": the grid of losses
moves probability so that δ(ε) only grows. On top of that stands `_rounding`, a bound of what
floating point can take away. Every ε gives a valid bound, so the grid of ε errs upwards too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.accounting.sampled_training import Training

    Array = NDArray[np.float64]

__all__ = ["decision_bound", "epsilon_at", "given_used", "guess_bound", "membership_bound"]

Direction = Literal["present || absent", "absent || present"]
_DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)

# The step of the grid of losses: in standard deviations of one round's loss, at most, and in all.
# A grid ten times as fine lowers the success rates of the digits scenario by less than 3e-5.
_STEP_SHARE: Final = 1 / 30
_LARGEST_STEP: Final = 2.5e-3
_MOST_STEPS: Final = 25_000
_REACH: Final = 10.5  # standard deviations; beyond it lies 4e-26, which counts as "surely told"
# Below this noise one round's losses span hundreds; the bound of known participation holds there.
_LEAST_SECRET_NOISE: Final = 0.1
_EPSILONS: Final = 1e-3 * np.sinh(np.linspace(-math.asinh(3e4), math.asinh(3e4), 8001))  # ±30
_NEAR: Final = 8_000  # losses on either side of 0 that are tried as ε
_MOST_VALUES: Final = 4096  # of K that are told apart
_DROPPED: Final = 1e-16  # participation patterns less likely than this count as "surely told"


def guess_bound(training: Training, kappa: Array) -> Array:
    """Success rates [n] that no attacker exceeds whose blind guesses are right at rates κ [n].

    Of a record that is used. Known participation: Σ_{K≥1} P(K) Φ(Φ⁻¹(κ) + √K/z) / u, K the sum
    over rounds of the squared number of the person's records, because given the batches the
    guesses still exclude each other. Secret participation: κ + (1 - f(κ) - κ) / u, and never more
    than with participation known.
    """
    known = _known_distribution(training).used()
    bound = ndtr(ndtri(kappa)[:, None] + known.shifts) @ known.masses + known.dropped
    if _is_composed(training):
        secret = given_used(_secret_profile(training).power(kappa), kappa, training.used)
        bound = np.minimum(bound, secret)
    return np.minimum(bound, 1.0)


def given_used(power: Array, level: Array, used: float) -> Array:
    """α + (1 - f(α) - α) / u from 1 - f(α) [n], α [n] and u: given that the record is used.

    >>> given_used(np.array([0.375]), np.array([0.25]), 0.5).tolist()
    [0.5]
    """
    return level + (power - level) / used


def membership_bound(training: Training, false_positive_rate: float) -> float:
    """1 - f(α): the largest true positive rate of a test for use, at false positive rate α.

    A test may spend its false positives on the batches where they pay most, so with known
    participation this exceeds `guess_bound`.
    """
    level = np.array([false_positive_rate])
    bound = _known_profile(training).power(level)
    if _is_composed(training):
        secret = given_used(_secret_profile(training).power(level), level, training.used)
        bound = np.minimum(bound, secret)
    return min(1.0, float(bound[0]))


def decision_bound(training: Training) -> float:
    """How often anyone decides rightly whether a record was used, if that is even beforehand.

    (1 + TV) / 2 with TV = δ(0); blind: 1/2.
    """
    distance = float(_known_distribution(training).used().delta(np.zeros(1))[0])
    if _is_composed(training):
        losses, rounding, _ = _composed(training, "present || absent")
        composed = (float(losses.get_delta_for_epsilon(0.0)) + rounding) / training.used
        distance = min(distance, composed)
    return (1 + min(1.0, distance)) / 2


def epsilon_at(training: Training, delta: float) -> float:
    """The least ε of (ε, δ)-differential privacy for adding or removing the record: both orders.

    Over the draw of the batches, whether or not it is used. Infinite where no ε is found for so
    small a δ.
    """
    known = _known_distribution(training)

    def excess(epsilon: float) -> float:
        return float(known.delta(np.array([epsilon]))[0]) - delta

    if excess(0.0) <= 0:
        return 0.0
    found = math.inf
    if known.dropped < delta:
        high = 1.0
        while excess(high) > 0:
            high *= 2
        found = float(brentq(excess, 0.0, high, xtol=1e-9)) + 2e-9
    if _is_composed(training):
        orders = [_composed(training, order) for order in _DIRECTIONS]
        found = min(
            found,
            max(
                float(losses.get_epsilon_for_delta(delta - rounding))
                if delta > rounding
                else found
                for losses, rounding, _ in orders
            ),
        )
    return found


@dataclass(frozen=True)
class _Profile:
    """δ [n] at increasing e^ε [n]; power(α) = min over ε of e^ε α + δ(ε)."""

    factors: Array
    deltas: Array

    def power(self, level: Array) -> Array:
        # δ is convex in e^ε, so the best ε is where its gradient falls below -α; were it not the
        # best, the bound would still be one.
        gradients = np.minimum.accumulate(-np.diff(self.deltas) / np.diff(self.factors))
        best = len(gradients) - np.searchsorted(gradients[::-1], level)
        return self.factors[best] * level + self.deltas[best]


@dataclass(frozen=True)
class _KnownDistribution:
    """Shifts √K/z [n] of a training whose batches are known, and their probabilities [n]."""

    shifts: Array
    masses: Array
    dropped: float  # probability of the patterns left out: there the record counts as found

    def used(self) -> _KnownDistribution:
        """The same, given that the record is used: K ≥ 1."""
        there = self.shifts > 0
        used = math.fsum(self.masses[there]) + self.dropped
        return _KnownDistribution(
            self.shifts[there], self.masses[there] / used, self.dropped / used
        )

    def delta(self, epsilons: Array) -> Array:
        """δ(ε) = Σ P(K) δ_{√K/z}(ε), δ_μ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ), δ_0 = (1-e^ε)₊."""
        moved = self.shifts > 0
        mu, eps = self.shifts[moved], epsilons[:, None]
        deltas = ndtr(mu / 2 - eps / mu) - np.exp(eps + log_ndtr(-mu / 2 - eps / mu))
        still = -np.expm1(np.minimum(epsilons, 0.0)) * self.masses[~moved].sum()
        total: Array = deltas @ self.masses[moved] + still + self.dropped
        return total


def _is_composed(training: Training) -> bool:
    """Whether secrecy helps; below the least noise the bound of known participation stands in."""
    return (
        training.participation == "secret"
        and training.q < 1
        and training.noise_multiplier >= _LEAST_SECRET_NOISE
    )


def _known_distribution(training: Training) -> _KnownDistribution:
    squares, masses, dropped = _squares(training.rounds, training.q, training.records_of_person)
    return _KnownDistribution(np.sqrt(squares) / training.noise_multiplier, masses, dropped)


@lru_cache(maxsize=16)  # one for all the noises that are tried
def _squares(rounds: int, q: float, k: int) -> tuple[Array, Array, float]:
    """Values of K, their probabilities, and what is left out of these.

    K is binomial for one record, else an R-fold convolution. Of many values, neighbours count as
    the largest of them, which tells more.
    """
    if q == 1:
        return np.array([float(rounds * k**2)]), np.array([1.0]), 0.0
    if k == 1:
        squares, masses = np.arange(rounds + 1), _binomial(rounds, q)
    else:
        one = np.zeros(k**2 + 1)
        one[np.arange(k + 1) ** 2] = _binomial(k, q)
        masses = np.maximum(0.0, _convolution_power(one, rounds))
        squares = np.arange(len(masses))
    kept = masses > _DROPPED
    squares, masses = squares[kept], masses[kept]
    dropped = max(0.0, 1.0 - math.fsum(masses))
    starts = np.arange(len(squares))
    if len(starts) > _MOST_VALUES:
        starts = np.union1d(0, np.arange(1, len(squares), -(-len(squares) // _MOST_VALUES)))
    largest = np.maximum.reduceat(squares, starts)
    return largest.astype(float), np.add.reduceat(masses, starts), dropped


def _binomial(times: int, share: float) -> Array:
    """P(Bin(times, share) = 0 .. times)."""
    from scipy.stats import binom  # heavy, and needed for proofs alone

    masses: Array = binom.pmf(np.arange(times + 1), times, share)
    return masses


def _convolution_power(masses: Array, times: int) -> Array:
    from scipy.signal import fftconvolve  # heavy, as above

    result, square = np.ones(1), masses
    while times:
        if times % 2:
            result = fftconvolve(result, square)
        times //= 2
        if times:
            square = fftconvolve(square, square)
    return result


def _known_profile(training: Training) -> _Profile:
    return _Profile(np.exp(_EPSILONS), _known_distribution(training).used().delta(_EPSILONS))


@lru_cache(maxsize=64)
def _secret_profile(training: Training) -> _Profile:
    losses, rounding, step = _composed(training, "present || absent")
    # Between neighbouring losses δ is linear in e^ε, so that the best ε is one of them.
    epsilons = np.union1d(step * np.arange(-_NEAR, _NEAR + 1), _EPSILONS)
    deltas = np.asarray(losses.get_delta_for_epsilon(epsilons)) + rounding
    return _Profile(np.exp(epsilons), deltas)


@lru_cache(maxsize=8)
def _composed(training: Training, direction: Direction) -> tuple[Any, float, float]:
    """All rounds' privacy losses (dp-accounting's `PLDPmf`), what rounding hides, the grid's step.

    What rounding may hide is to be added to δ.
    """
    from dp_accounting.pld import pld_pmf  # heavy, and needed for secret participation only

    k, z = training.records_of_person, training.noise_multiplier
    one = _Round(np.arange(k + 1) / z, _binomial(k, training.q))
    low, high = one.loss(np.array([-_REACH, k / z + _REACH]))
    if direction == "absent || present":
        low, high = -high, -low
    step = max(min(_LARGEST_STEP, _STEP_SHARE * one.spread()), (high - low) / _MOST_STEPS)
    first, last = math.floor(low / step), math.ceil(high / step)
    deltas = one.delta(np.arange(first, last + 1) * step, direction)
    losses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, deltas)
    composed = losses.to_dense_pmf().self_compose(training.rounds)
    return composed, _rounding(training.rounds, composed.size), step


def _rounding(rounds: int, size: int) -> float:
    """√n · R · 2⁻⁵² · 2 log₂ n ≥ Σ |error| of n probabilities from the R-th power of a transform.

    An R-th power of numbers of modulus ≤ 1 errs by R times their error, and a transform by
    2⁻⁵² log₂ n; Parseval and Cauchy-Schwarz carry that to the sum over n probabilities.
    """
    return math.sqrt(size) * rounds * 2.0**-52 * 2 * math.log2(size + 1)


@dataclass(frozen=True)
class _Round:
    """One round: P = Σ_m w_m N(shift_m, 1) against Q = N(0, 1); shifts ≥ 0, the first is 0."""

    shifts: Array
    weights: Array

    def loss(self, x: Array) -> Array:
        """log dP/dQ at x [n]; it rises with x from log w_0."""
        exponents = np.outer(x, self.shifts) - self.shifts**2 / 2
        found: Array = logsumexp(exponents, axis=1, b=self.weights)
        return found

    def spread(self) -> float:
        """√χ²(P ‖ Q), about the standard deviation of the loss where noise is large."""
        squared = self.weights @ np.exp(np.minimum(np.outer(self.shifts, self.shifts), 50.0))
        return math.sqrt(max(float(squared @ self.weights) - 1.0, 1e-300))

    def delta(self, epsilons: Array, direction: Direction) -> Array:
        """δ(ε) of one round at increasing ε [n]: the event is {loss > ε}, or {loss < -ε}."""
        forward = direction == "present || absent"
        edge = self._inverse_loss(epsilons if forward else -epsilons)
        sign = 1.0 if forward else -1.0
        present = ndtr(sign * (self.shifts - edge[:, None])) @ self.weights
        log_absent = log_ndtr(-sign * edge)
        if forward:
            deltas = present - np.exp(epsilons + log_absent)
        else:
            deltas = np.exp(log_absent) - np.exp(epsilons) * present
        clipped = np.clip(deltas, 0.0, 1.0)
        falling: Array = np.maximum.accumulate(clipped[::-1])[::-1]
        return falling

    def _inverse_loss(self, losses: Array) -> Array:
        """The x at which the loss is reached, by bisection; -inf below its least value."""
        low = np.full_like(losses, -60.0)
        high = np.full_like(losses, float(self.shifts[-1]) + 60.0)
        for _ in range(70):
            middle = (low + high) / 2
            above = self.loss(middle) > losses
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.where(losses <= math.log(self.weights[0]), -np.inf, high)
