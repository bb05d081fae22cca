"""What a protection costs: utility, bits and seconds, against the same training without it.

Both runs of a pair share initial weights, cohorts and batches, so that a difference between them
is the protection's doing. The paper's bounds stand beside what was measured (departure E14).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from statistics import fmean, median, stdev
from typing import Any, Final

from scipy.special import stdtrit

from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import Estimate
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.paper_bounds import PaperBound, paper_bounds, update_profile
from trilemma.estimation.scenario import Scenario
from trilemma.federation.training import History, train
from trilemma.protections.protection import Protection

__all__ = [
    "BANDWIDTH",
    "Costs",
    "Spent",
    "check_bandwidth",
    "compare",
    "measure_costs",
    "paired_estimate",
    "train_seeds",
]

BANDWIDTH: Final = 100e6  # bits a second between a client and the server


@dataclass(frozen=True)
class Spent:
    """What a round takes a client: bits both ways, and wall seconds of each part of it.

    Clients work at once, so that a part lasts the mean over them; the server's `combine` counts
    in full. Medians over the rounds.
    """

    bits_up: float
    bits_down: float
    train: float
    protect: float
    combine: float
    reveal: float

    @property
    def bits(self) -> float:
        """Bits up and down."""
        return self.bits_up + self.bits_down

    @property
    def seconds(self) -> float:
        """Seconds of all parts, without the transfer."""
        return self.train + self.protect + self.combine + self.reveal

    def duration(self, bandwidth: float) -> float:
        """Seconds + bits / bandwidth."""
        return self.seconds + self.bits / bandwidth


@dataclass(frozen=True)
class Costs:
    """What a protection costs, measured on paired seeds, with t-intervals.

    `utility_loss` is the metric without protection less that with it, on the test records;
    `client_utility_loss` the same on each client's own records. `efficiency_reduction` is the
    ratio of `Spent.duration` with and without protection, less 1.
    """

    protection: str
    rounds: int
    seeds: int
    confidence: float
    bandwidth: float
    unprotected_metric: float
    protected_metric: float
    utility_loss: Estimate
    client_utility_loss: tuple[Estimate, ...]
    efficiency_reduction: Estimate
    unprotected: Spent
    protected: Spent
    bounds: tuple[PaperBound, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def measure_costs(
    scenario: Scenario,
    protection: Protection,
    *,
    rounds: int = 150,
    seeds: Sequence[int] = range(5),
    bandwidth: float = BANDWIDTH,
    confidence: float = 0.95,
    c4: float = 1.0,
    c5: float = 1.0,
    unprotected: Sequence[History] | None = None,
    **settings: Any,
) -> Costs:
    """Train with and without protection from each seed, and compare.

    `unprotected` is what `train_seeds` gave for no protection, where several protections share
    it. `settings` go to `train`.
    """
    plain = unprotected or train_seeds(
        scenario, Protection(), rounds=rounds, seeds=seeds, **settings
    )
    shielded = train_seeds(scenario, protection, rounds=rounds, seeds=seeds, **settings)
    bounds = paper_bounds(protection, update_profile(scenario), c4=c4, c5=c5)
    return compare(
        protection.describe(),
        plain,
        shielded,
        bandwidth=bandwidth,
        confidence=confidence,
        bounds=bounds,
    )


def train_seeds(
    scenario: Scenario,
    protection: Protection,
    *,
    rounds: int,
    seeds: Sequence[int],
    real_rounds: int = 1,
    **settings: Any,
) -> tuple[History, ...]:
    """One training from fresh weights for each seed, all under one key.

    Only the first `real_rounds` rounds of each run a cryptographic transport (they give bits and
    seconds), the others its fixed-point twin, which computes the same numbers.
    """
    secret = settings.pop("secret", None) or protection.transport.new_secret(System())
    settings.setdefault("server_lr", scenario.server_lr)
    if secret is not None:
        for key in (secret, secret.public):  # its tables are made once, not once a round
            key.randomizers(1, System())
    return tuple(
        train(
            scenario,
            protection,
            rounds=rounds,
            seed=seed,
            weights=fresh_weights(scenario, [seed])[0],
            evaluate_every=rounds,
            real_rounds=real_rounds,
            secret=secret,
            **settings,
        )
        for seed in seeds
    )


def compare(
    protection: str,
    unprotected: Sequence[History],
    protected: Sequence[History],
    *,
    bandwidth: float = BANDWIDTH,
    confidence: float = 0.95,
    bounds: tuple[PaperBound, ...] = (),
) -> Costs:
    """Costs from two equally long lists of trainings, paired by their places."""
    check_bandwidth(bandwidth)
    pairs = list(zip(unprotected, protected, strict=False))
    if len(unprotected) != len(protected) or not all(_paired(*pair) for pair in pairs):
        raise InvalidInput(
            "the trainings with and without protection are not pairs: give both the same seeds, "
            "rounds and clients."
        )
    # The local work is the same with and without protection, so it has one duration.
    local = median(
        each.train_seconds for history in (*unprotected, *protected) for each in history.rounds
    )
    without = [_spent(history, local) for history in unprotected]
    within = [_spent(history, local) for history in protected]
    clients = len(unprotected[0].client_metrics)
    return Costs(
        protection=protection,
        rounds=len(unprotected[0].rounds),
        seeds=len(pairs),
        confidence=confidence,
        bandwidth=bandwidth,
        unprotected_metric=fmean(each.metric for each in unprotected),
        protected_metric=fmean(each.metric for each in protected),
        utility_loss=paired_estimate([a.metric - b.metric for a, b in pairs], confidence),
        client_utility_loss=tuple(
            paired_estimate(
                [a.client_metrics[k] - b.client_metrics[k] for a, b in pairs], confidence
            )
            for k in range(clients)
        ),
        efficiency_reduction=paired_estimate(
            [
                b.duration(bandwidth) / a.duration(bandwidth) - 1
                for a, b in zip(without, within, strict=True)
            ],
            confidence,
        ),
        unprotected=_median_of(without),
        protected=_median_of(within),
        bounds=bounds,
    )


def check_bandwidth(bandwidth: float) -> None:
    """Refuse what is no number of bits a second."""
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        raise InvalidInput(f"bandwidth (bits a second) must be positive, got {bandwidth}.")


def paired_estimate(differences: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean ± t_{n-1} · sd / √n.

    >>> estimate = paired_estimate([1.0, 2.0, 3.0])
    >>> estimate.value, round(estimate.low, 3), round(estimate.high, 3)
    (2.0, -0.484, 4.484)
    """
    count = len(differences)
    if count < 2:
        raise InvalidInput(f"an interval over paired seeds needs at least 2 seeds, got {count}.")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie in (0, 1), got {confidence}.")
    mean = fmean(differences)
    reach = float(stdtrit(count - 1, (1 + confidence) / 2)) * stdev(differences) / math.sqrt(count)
    return Estimate(mean, mean - reach, mean + reach)


def _paired(unprotected: History, protected: History) -> bool:
    return [each.clients for each in unprotected.rounds] == [
        each.clients for each in protected.rounds
    ]


def _spent(history: History, train_seconds: float) -> Spent:
    """Medians over the rounds that ran the transport itself."""
    real = [each.exchange for each in history.rounds if each.exchange is not None]
    return Spent(
        median(fmean(each.bits_up) for each in real),
        median(fmean(each.bits_down) for each in real),
        train_seconds,
        median(each.seconds.protect for each in real),
        median(each.seconds.combine for each in real),
        median(each.seconds.reveal for each in real),
    )


def _median_of(each: Sequence[Spent]) -> Spent:
    return Spent(*(median(column) for column in zip(*map(astuple, each), strict=True)))
