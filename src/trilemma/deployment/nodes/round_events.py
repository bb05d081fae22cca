"""What rounds of training cost a node's data: events, and what they add up to.

An event says how well noise hides one record, or a whole client, in each of some rounds. Every
release is compared with one in which that record (or client) is zeroed out, so events of both
levels add up to a bound on what is learnt of a record.

Rounds of one kind add up as `trilemma.accounting.noise_calibration` has it. Rounds of several
kinds are composed by dp-accounting's privacy-loss distributions, whose discretisation errs
upwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from trilemma.accounting.sampled_training import Participation, Training
from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.quantities import one_of, positive, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Event", "Level", "epsilon_of", "leakage_of"]

Level = Literal["record", "client"]

# Steps of the grid of privacy losses: a tenth of one round's loss, within these bounds. A finer
# grid lowers ε of 150 rounds at q = 4/150, z = 0.52 by 3e-5; a coarser one only raises it.
_FINEST: Final = 5e-5
_COARSEST: Final = 1e-3
# Beyond so large a μ (or so little noise in a round) the sampling is not counted where kinds mix:
# losses span thousands there, and ε is far beyond use.
_LARGEST_MU: Final = 10.0
_EPSILONS: Final = np.sinh(np.linspace(-math.asinh(20.0), math.asinh(40.0), 400))
_EVERY_UP_TO: Final = 64  # candidate sets looked at one by one, larger ones in steps of 2 %
_LARGEST_CANDIDATE_SET: Final = 10**12


@dataclass(frozen=True)
class Event:
    """Rounds in each of which noise of z times a record's (or client's) influence hid it.

    `noise_multiplier` is z; 0 stands for no noise, or none that proves anything. A round holds
    the record with probability `q`, and an attacker knows in which it was (`participation`), or
    does not, as Poisson sampling allows.
    """

    noise_multiplier: float
    rounds: int = 1
    q: float = 1.0
    participation: Participation = "known"
    level: Level = "client"

    def __post_init__(self) -> None:
        noise: object = self.noise_multiplier
        z = 0.0 if noise == 0 and not isinstance(noise, bool) else positive("z", noise)
        for name, value in (
            ("noise_multiplier", z),
            ("rounds", whole("rounds", self.rounds)),
            ("q", positive("q (probability that a round holds the record)", self.q)),
        ):
            object.__setattr__(self, name, value)
        Training(self.rounds, self.q, self.noise_multiplier or 1.0, self.participation)
        one_of("level", self.level, ("record", "client"))


def epsilon_of(events: Iterable[Event], delta: float) -> float:
    """ε, at δ = `delta`, of all these rounds together; infinite where some have no noise.

    >>> round(epsilon_of([Event(1.0), Event(1.0)], 1e-5), 3)
    6.573
    >>> round(epsilon_of([Event(0.52, 150, 4 / 150, "secret", "record")], 1e-5), 2)
    12.11
    """
    from trilemma.accounting.noise_calibration import (
        epsilon,  # heavy, and a node starts for each message
    )

    kinds = _kinds(events)
    if kinds is None or not kinds:
        return 0.0 if kinds is not None else math.inf
    if len(kinds) == 1:
        return epsilon(kinds[0], delta)
    return min(
        epsilon(_unsampled(kinds), delta), float(_losses(kinds).get_epsilon_for_delta(delta))
    )


def leakage_of(events: Iterable[Event], candidates: int | None = None) -> float:
    """The leakage, at most, among N `candidates` after all these rounds (None: any N).

    >>> round(leakage_of([Event(0.513, 150, 4 / 150, "secret", "record")], 100), 2)
    0.3
    >>> leakage_of([Event(0.0)], 100) == bernoulli_leakage(1.0, 1 / 100)
    True
    """
    from trilemma.accounting.noise_calibration import (  # heavy, as above
        leakage_bound,
        leakage_supremum,
    )

    kinds = _kinds(events)
    if kinds is None:
        return 1.0 if candidates is None else bernoulli_leakage(1.0, 1 / candidates)
    if not kinds:
        return 0.0
    if len(kinds) == 1:
        if candidates is None:
            return leakage_supremum(kinds[0])[0]
        return leakage_bound(kinds[0], candidates)
    if candidates is not None:
        success = float(_success(kinds, np.array([1 / candidates]))[0])
        return bernoulli_leakage(success, 1 / candidates)
    return _supremum(kinds)


def _kinds(events: Iterable[Event]) -> tuple[Training, ...] | None:
    """Rounds of equal kind merged; those that surely hold the record as one Gaussian, μ² = Σ R/z².

    None where some have no noise. One kind alone where mixing several would take too long.
    """
    rounds: dict[tuple[float, float, Participation], int] = {}
    square = 0.0
    for event in events:
        if event.noise_multiplier == 0:
            return None
        if event.q == 1:
            square += event.rounds / event.noise_multiplier**2
        else:
            key = (event.q, event.noise_multiplier, event.participation)
            rounds[key] = rounds.get(key, 0) + event.rounds
    kinds = tuple(Training(times, q, z, who) for (q, z, who), times in sorted(rounds.items()))
    if square > 0:
        kinds += (Training(1, 1.0, 1 / math.sqrt(square), "known"),)
    least = min((kind.noise_multiplier for kind in kinds), default=math.inf)
    if len(kinds) > 1 and least * _LARGEST_MU < 1:
        return (_unsampled(kinds),)
    return kinds


def _unsampled(kinds: Iterable[Training]) -> Training:
    """As if each round held the record: never less."""
    square = math.fsum(kind.rounds / kind.noise_multiplier**2 for kind in kinds)
    return Training(1, 1.0, 1 / math.sqrt(square), "known")


@lru_cache(maxsize=8)
def _losses(kinds: tuple[Training, ...]) -> Any:
    """dp-accounting's privacy-loss distribution of all rounds."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # heavy, for mixtures only

    step = min(max(_FINEST, kind.q / kind.noise_multiplier / 10) for kind in kinds)
    step = min(step, _COARSEST)
    total = pld.identity(step)
    for kind in kinds:
        rate = kind.q if kind.participation == "secret" else 1.0
        once = pld.from_gaussian_mechanism(
            kind.noise_multiplier, sampling_prob=rate, value_discretization_interval=step
        )
        if rate > kind.q:  # it is seen whether the round held the record
            once = once.compute_mixture(pld.identity(step), kind.q)
        total = total.compose(once.self_compose(kind.rounds))
    return total


def _success(kinds: tuple[Training, ...], blind: NDArray[np.float64]) -> NDArray[np.float64]:
    """min over ε of e^ε κ + δ(ε) at blind rates κ [n]: every ε gives a bound.

    Given that the record is used in one round at least, as `trilemma.accounting.trade_off` has it.
    """
    from trilemma.accounting.trade_off import given_used  # heavy, as above

    deltas = np.asarray(_losses(kinds).get_delta_for_epsilon(_EPSILONS))
    bounds = np.outer(blind, np.exp(_EPSILONS)) + deltas
    used = 1 - math.prod(1 - kind.used for kind in kinds)
    least: NDArray[np.float64] = np.minimum(1.0, given_used(bounds.min(axis=1), blind, used))
    return least


def _supremum(kinds: tuple[Training, ...]) -> float:
    """The largest leakage over N ≥ 2; for a < N ≤ b it is at most H_{1/b}(p(1/a))."""
    sizes = list(range(2, _EVERY_UP_TO))
    while sizes[-1] < _LARGEST_CANDIDATE_SET:
        sizes.append(math.ceil(sizes[-1] * 1.02))
    success = _success(kinds, 1 / np.array(sizes, dtype=np.float64)).tolist()
    first = bernoulli_leakage(success[0], 1 / sizes[0])
    rest = bernoulli_leakage(success[-1], 0.0)
    steps = (
        bernoulli_leakage(p if b - a > 1 else after, 1 / b)
        for (a, b), (p, after) in zip(pairwise(sizes), pairwise(success), strict=True)
    )
    return max(first, rest, *steps)
