"""What a protection costs: utility, bits and seconds, against the same training without it.

Both trainings of a pair share initial weights, cohorts and batches, so that a difference between
them is the protection's doing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import bdtr, stdtrit

from trilemma.errors import InvalidInput
from trilemma.federation.round_timing import RoundCosts, Spent
from trilemma.federation.training import History
from trilemma.game.estimates import Estimate
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

__all__ = [
    "BANDWIDTH",
    "Costs",
    "check_bandwidth",
    "compare",
    "fewest_rounds",
    "in_points",
    "lost_accuracy",
    "median_estimate",
    "paired_estimate",
]

BANDWIDTH: Final = 100e6  # bits a second between a client and the server


@dataclass(frozen=True)
class Costs:
    """What a protection costs: utility over paired seeds, bits and seconds over paired rounds.

    Accuracies that noise does not hide, and what is lost against them, are in whole points: what
    a training without noise reaches is a function of the clients' records, and files are shared.

    `utility_loss` is the metric without protection less that with it, on the test records;
    `client_utility_loss` the same on each client's own records; their intervals cover seeds and
    records. `efficiency_reduction` is the ratio of `Spent.duration` with and without protection,
    less 1, the median over pairs of rounds. `unprotected` and `protected` are medians.
    `best_unprotected_metric` is that of the best training without protection that may do what a
    protected one may (None: not trained).
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
    best_unprotected_metric: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def compare(
    protection: str,
    unprotected: Sequence[History],
    protected: Sequence[History],
    rounds: RoundCosts,
    *,
    bandwidth: float = BANDWIDTH,
    confidence: float = 0.95,
    best: Sequence[History] = (),
) -> Costs:
    """Costs from two equally long lists of trainings, paired by their places, and from rounds.

    No protection loses nothing against itself: there is nothing to estimate.
    """
    check_bandwidth(bandwidth)
    _check_pairs(unprotected, protected)
    without, within, loss = lost_accuracy(protection, unprotected, protected, confidence)
    pairs = list(zip(unprotected, protected, strict=True))
    clients = [
        _lost(
            protection,
            [(before.client_metrics[k], after.client_metrics[k]) for before, after in pairs],
            [(_scores_of(before, k), _scores_of(after, k)) for before, after in pairs],
            confidence,
        )
        for k in range(len(unprotected[0].client_metrics))
    ]
    reached = fmean(item.metric for item in best) if best else None
    if _are_accuracies(unprotected):
        clients = list(map(in_points, clients))
        reached = None if reached is None else round(reached, 2)
    ratios = [
        after.duration(bandwidth) / before.duration(bandwidth) - 1
        for before, after in zip(rounds.without, rounds.within, strict=True)
    ]
    return Costs(
        protection=protection,
        rounds=len(unprotected[0].rounds),
        seeds=len(unprotected),
        confidence=confidence,
        bandwidth=bandwidth,
        unprotected_metric=without,
        protected_metric=within,
        utility_loss=loss,
        client_utility_loss=tuple(clients),
        efficiency_reduction=median_estimate(ratios, confidence),
        unprotected=rounds.unprotected,
        protected=rounds.protected,
        best_unprotected_metric=reached,
    )


def lost_accuracy(
    protection: str,
    unprotected: Sequence[History],
    protected: Sequence[History],
    confidence: float = 0.95,
) -> tuple[float, float, Estimate]:
    """The metric without and with a protection, and what is lost, rounded as `Costs` says."""
    pairs = list(zip(unprotected, protected, strict=True))
    without = fmean(item.metric for item in unprotected)
    within = fmean(item.metric for item in protected)
    metrics = [(before.metric, after.metric) for before, after in pairs]
    scores = [(before.scores, after.scores) for before, after in pairs]
    lost = _lost(protection, metrics, scores, confidence)
    if not _are_accuracies(unprotected):
        return without, within, lost
    within = within if _is_noisy(protection) else round(within, 2)
    return round(without, 2), within, in_points(lost)


_Scores = tuple["torch.Tensor | None", "torch.Tensor | None"]


def _lost(
    protection: str,
    metrics: Sequence[tuple[float, float]],
    scores: Sequence[_Scores],
    confidence: float,
) -> Estimate:
    """What is lost by pairs (without, with); by no protection nothing, for certain."""
    if protection == Protection().describe():
        return Estimate(0.0, 0.0, 0.0)
    differences = [without - within for without, within in metrics]
    return paired_estimate(differences, confidence, _differences(scores))


def _check_pairs(unprotected: Sequence[History], protected: Sequence[History]) -> None:
    if len(unprotected) != len(protected) or not all(map(_paired, unprotected, protected)):
        raise InvalidInput(
            f"{len(unprotected)} trainings without and {len(protected)} with protection are not "
            f"pairs: give both the same seeds, rounds and clients."
        )
    if len(unprotected) < 2:
        raise InvalidInput(
            f"an interval over paired seeds needs at least 2 seeds, got {len(unprotected)}."
        )


def _is_noisy(protection: str) -> bool:
    """Whether noise hides what a training without it would reach."""
    return any(isinstance(part, Randomization) for part in parse_protection(protection).parts)


def _are_accuracies(trainings: Sequence[History]) -> bool:
    """Whether in all of them each test record is right or wrong."""
    scores = [training.scores for training in trainings]
    return all(item is not None and np.isin(item.numpy(), (0.0, 1.0)).all() for item in scores)


def in_points(share: Estimate) -> Estimate:
    """The estimate in whole hundredths, its interval widened to such."""
    return Estimate(
        round(share.value, 2), math.floor(share.low * 100) / 100, math.ceil(share.high * 100) / 100
    )


def check_bandwidth(bandwidth: float) -> None:
    """Refuse what is no number of bits a second."""
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        raise InvalidInput(f"bandwidth (bits a second) must be positive, got {bandwidth}.")


def paired_estimate(
    differences: Sequence[float],
    confidence: float = 0.95,
    by_record: NDArray[np.float64] | None = None,
) -> Estimate:
    """Mean ± t_ν · √(s²/n + r²/m) over n seeds and, from `by_record` [n, m], over m records.

    s² is the variance of the differences, r² that of the records' mean differences. Where every
    record is right or wrong, one more of each sign is counted (Bonett and Price 2012), so that m
    records without a difference leave ± 2.8/m and not certainty. ν by Satterthwaite.

    >>> estimate = paired_estimate([1.0, 2.0, 3.0])
    >>> estimate.value, round(estimate.low, 3), round(estimate.high, 3)
    (2.0, -0.484, 4.484)
    """
    count = len(differences)
    if count < 2:
        raise InvalidInput(f"an interval over paired seeds needs at least 2 seeds, got {count}.")
    _check_confidence(confidence)
    mean = fmean(differences)
    parts = [(float(np.var(differences, ddof=1)) / count, count - 1)]
    if by_record is not None:
        means = by_record.mean(axis=0)
        if np.isin(by_record, (-1.0, 0.0, 1.0)).all():
            means = np.append(means, (-1.0, 1.0))
        parts.append((float(np.var(means, ddof=1)) / means.size, means.size - 1))
    total = math.fsum(variance for variance, _ in parts)
    if total == 0:
        return Estimate(mean, mean, mean)
    freedom = total**2 / math.fsum(variance**2 / degrees for variance, degrees in parts)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)
    return Estimate(mean, mean - reach, mean + reach)


def median_estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median, between values that hold the true one, however independent values are spread.

    Too few values for the confidence are refused: `fewest_rounds`.

    >>> median_estimate([5.0, 1.0, 2.0, 3.0, 9.0, 4.0])
    Estimate(value=3.5, low=1.0, high=9.0)
    """
    order, count = sorted(values), len(values)
    if count < fewest_rounds(confidence):
        raise InvalidInput(
            f"an interval of confidence {confidence} for a median needs at least "
            f"{fewest_rounds(confidence)} rounds, got {count}."
        )
    # Fewer than `cut` values on one side of the true median has probability bdtr(cut - 1).
    cut = 1
    while cut < (count + 1) // 2 and bdtr(cut, count, 0.5) <= (1 - confidence) / 2:
        cut += 1
    return Estimate(median(order), order[cut - 1], order[count - cut])


def fewest_rounds(confidence: float) -> int:
    """The least n with 2^(1-n) <= 1 - confidence.

    >>> fewest_rounds(0.95)
    6
    """
    _check_confidence(confidence)
    return math.ceil(1 - math.log2(1 - confidence))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie in (0, 1), got {confidence}.")


def _paired(unprotected: History, protected: History) -> bool:
    return [item.clients for item in unprotected.rounds] == [
        item.clients for item in protected.rounds
    ]


def _scores_of(history: History, client: int) -> torch.Tensor | None:
    return history.client_scores[client] if history.client_scores else None


def _differences(scores: Sequence[_Scores]) -> NDArray[np.float64] | None:
    """Scores without less those with protection [seeds, records], where all have scores."""
    rows = [(a - b).double().numpy() for a, b in scores if a is not None and b is not None]
    return np.stack(rows) if len(rows) == len(scores) else None
