"""What a protection costs: utility, bits and seconds, against the same training without it.

Both trainings of a pair share initial weights, cohorts and batches, so that a difference between
them is the protection's doing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
    if len(unprotected) != len(protected) or not all(map(_paired, unprotected, protected)):
        raise InvalidInput(
            f"{len(unprotected)} trainings without and {len(protected)} with protection are not "
            f"pairs: give both the same seeds, rounds and clients."
        )
    if len(unprotected) < 2:
        raise InvalidInput(
            f"an interval over paired seeds needs at least 2 seeds, got {len(unprotected)}."
        )

    def lost(
        metrics: Sequence[tuple[float, float]],
        scores: Sequence[tuple[torch.Tensor | None, torch.Tensor | None]],
    ) -> Estimate:
        if protection == Protection().describe():
            return Estimate(0.0, 0.0, 0.0)
        return paired_estimate([a - b for a, b in metrics], confidence, _differences(scores))

    pairs = list(zip(unprotected, protected, strict=True))
    ratios = [
        after.duration(bandwidth) / before.duration(bandwidth) - 1
        for before, after in zip(rounds.without, rounds.within, strict=True)
    ]
    costs = Costs(
        protection=protection,
        rounds=len(unprotected[0].rounds),
        seeds=len(pairs),
        confidence=confidence,
        bandwidth=bandwidth,
        unprotected_metric=fmean(item.metric for item in unprotected),
        protected_metric=fmean(item.metric for item in protected),
        utility_loss=lost(
            [(a.metric, b.metric) for a, b in pairs], [(a.scores, b.scores) for a, b in pairs]
        ),
        client_utility_loss=tuple(
            lost(
                [(a.client_metrics[k], b.client_metrics[k]) for a, b in pairs],
                [(_scores_of(a, k), _scores_of(b, k)) for a, b in pairs],
            )
            for k in range(len(unprotected[0].client_metrics))
        ),
        efficiency_reduction=median_estimate(ratios, confidence),
        unprotected=rounds.unprotected,
        protected=rounds.protected,
        best_unprotected_metric=fmean(item.metric for item in best) if best else None,
    )
    if not all(_is_accuracy(history.scores) for history in unprotected):
        return costs
    noisy = _is_noisy(protection)
    return replace(
        costs,
        unprotected_metric=round(costs.unprotected_metric, 2),
        protected_metric=costs.protected_metric if noisy else round(costs.protected_metric, 2),
        utility_loss=in_points(costs.utility_loss),
        best_unprotected_metric=(
            None
            if costs.best_unprotected_metric is None
            else round(costs.best_unprotected_metric, 2)
        ),
        client_utility_loss=tuple(map(in_points, costs.client_utility_loss)),
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
    lost = paired_estimate(
        [a.metric - b.metric for a, b in pairs],
        confidence,
        _differences([(a.scores, b.scores) for a, b in pairs]),
    )
    if not all(_is_accuracy(history.scores) for history in unprotected):
        return without, within, lost
    within = within if _is_noisy(protection) else round(within, 2)
    return round(without, 2), within, in_points(lost)


def _is_noisy(protection: str) -> bool:
    """Whether noise hides what a training without it would reach."""
    return any(isinstance(part, Randomization) for part in parse_protection(protection).parts)


def _is_accuracy(scores: torch.Tensor | None) -> bool:
    """Whether each test record is right or wrong."""
    return scores is not None and bool(np.isin(scores.numpy(), (0.0, 1.0)).all())


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
        each = by_record.mean(axis=0)
        if np.isin(by_record, (-1.0, 0.0, 1.0)).all():
            each = np.append(each, (-1.0, 1.0))
        parts.append((float(np.var(each, ddof=1)) / each.size, each.size - 1))
    total = math.fsum(variance for variance, _ in parts)
    if total == 0:
        return Estimate(mean, mean, mean)
    freedom = total**2 / math.fsum(variance**2 / degrees for variance, degrees in parts)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)
    return Estimate(mean, mean - reach, mean + reach)


def median_estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median, between the values that hold the true one for any law of independent values.

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


def _differences(
    scores: Sequence[tuple[torch.Tensor | None, torch.Tensor | None]],
) -> NDArray[np.float64] | None:
    """Scores without less those with protection [seeds, records], where all have scores."""
    rows = [(a - b).double().numpy() for a, b in scores if a is not None and b is not None]
    return np.stack(rows) if len(rows) == len(scores) else None
