"""Labels by evidence: the counts of classes under which an update is most likely.

Public records tell how updates of each class are spread at the attacked weights. With m_c and C_c
the mean and covariance of single records' updates of class c, n_kc the number of client k's S
records in class c and w_k its weight, obs ~ N(Σ w_k n_kc m_c / S, Σ w_k² n_kc C_c / S² + s² I);
the score of the counts is its log density - Σ log n_kc!.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks.posterior.rest_distribution import count_vectors
from trilemma.attacks.update_spread import Spread, record_spread

if TYPE_CHECKING:
    from trilemma.attacks.matching.view_tensors import ViewTensors
    from trilemma.records.records import Records

__all__ = ["all_counts", "best_counts", "climbed_counts", "count_scores", "labels_by_evidence"]

_ALL: Final = 1001  # count vectors up to which every one is scored
_TRIED: Final = 8  # exchanges of a step that are scored exactly
_NUMBERS: Final = 2**25  # held at once


def labels_by_evidence(units: ViewTensors, public: Records, seed: int) -> torch.Tensor:
    """Class indices [U, K·S] of each unit's likeliest counts, client by client.

    All counts are scored where there are few; else an exchange of one record's class after the
    other raises the score, from even counts. Local steps and clipped sums are taken as linear at
    the scale that simulated clients show.
    """
    made = []
    for spread in record_spread(units, public, seed):
        every = all_counts(spread.size, spread.classes)
        counts = (
            climbed_counts(spread)
            if every is None or spread.groups > 1
            else best_counts(spread, every)
        )
        made.append(_slots(counts, spread.size))
    labels = torch.cat(made)
    if labels.shape[1] == 1:  # equal weights: spread evenly over the clients
        size = units.view.local_training.unit_size
        return labels.reshape(len(labels), size, -1).transpose(1, 2).flatten(1)
    return labels.flatten(1)


@lru_cache(maxsize=16)
def all_counts(size: int, classes: int) -> torch.Tensor | None:
    """All counts [H, classes] that add up to `size`; None if they are too many.

    >>> all_counts(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    many = math.comb(size + classes - 1, size) > _ALL
    return None if many else count_vectors(size, classes).flip(0)


def count_scores(spread: Spread, counts: torch.Tensor) -> torch.Tensor:
    """The score [A, H] of counts [A, H, G, C] (or [1, H, G, C])."""
    n = counts.flatten(2).to(spread.observed)
    mean = n @ spread.mean.flatten(1, 2)
    covariance = (n @ spread.covariance.flatten(1, 2).flatten(2)).reshape(
        *mean.shape, mean.shape[2]
    )
    covariance.diagonal(dim1=2, dim2=3).add_(spread.variance[:, None, None])
    root = torch.linalg.cholesky(covariance)
    gap = (spread.observed[:, None] - mean)[..., None]
    white = torch.linalg.solve_triangular(root, gap, upper=False)[..., 0]
    log_root = root.diagonal(dim1=2, dim2=3).log().sum(2)
    score: torch.Tensor = -0.5 * (white**2).sum(2) - log_root - torch.lgamma(n + 1).sum(2)
    return score


def best_counts(spread: Spread, every: torch.Tensor) -> torch.Tensor:
    """The best of all counts [A, 1, C]."""
    every = every.to(spread.observed.device)
    rows = max(1, _NUMBERS // (len(every) * spread.observed.shape[1] ** 2))
    chosen = [count_scores(part, every[None, :, None]).argmax(1) for part in spread.split(rows)]
    return every[torch.cat(chosen)][:, None]


def climbed_counts(spread: Spread) -> torch.Tensor:
    """Counts [A, G, C] that no exchange of one record's class improves."""
    units = spread.observed.shape[0]
    counts = spread.even()
    score = count_scores(spread, counts[:, None])[:, 0]
    rows = torch.arange(units, device=counts.device)
    for _ in range(2 * spread.groups * spread.size):
        gain = _first_order_gain(spread, counts).flatten(1)
        tried = gain.topk(min(_TRIED, gain.shape[1]), 1).indices
        group, old, new = _unravel(tried, spread.classes)
        trial = counts[:, None].repeat(1, tried.shape[1], 1, 1)
        column = torch.arange(tried.shape[1], device=counts.device)
        trial[rows[:, None], column, group, old] -= 1
        trial[rows[:, None], column, group, new] += 1
        found = torch.where(
            (trial < 0).flatten(2).any(2), -torch.inf, count_scores(spread, trial.clamp(min=0))
        )
        best, at = found.max(1)
        better = best > score
        if not bool(better.any()):
            break
        counts = torch.where(better[:, None, None], trial[rows, at], counts)
        score = torch.where(better, best, score)
    return counts


def _unravel(flat: torch.Tensor, classes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return flat // classes**2, flat // classes % classes, flat % classes


def _first_order_gain(spread: Spread, counts: torch.Tensor) -> torch.Tensor:
    """The gain [A, G, C, C] in score by moving a record of group g from class a to b, roughly.

    Exact in the change of the mean, of first order in that of the covariance.
    """
    n = counts.to(spread.observed)
    covariance = torch.einsum("agc,agcij->aij", n, spread.covariance)
    covariance.diagonal(dim1=1, dim2=2).add_(spread.variance[:, None])
    precision = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
    gap = spread.observed - torch.einsum("agc,agci->ai", n, spread.mean)
    pull = torch.einsum("aij,aj->ai", precision, gap)
    linear = torch.einsum("ai,agci->agc", pull, spread.mean)
    volume = torch.einsum("aij,agcij->agc", precision, spread.covariance)
    stretch = torch.einsum("ai,agcij,aj->agc", pull, spread.covariance, pull)
    inner = torch.einsum("agci,aij,agdj->agcd", spread.mean, precision, spread.mean)
    squared = inner.diagonal(dim1=2, dim2=3)
    distance = squared[..., :, None] + squared[..., None, :] - 2 * inner
    own = linear - 0.5 * volume + 0.5 * stretch
    gain = (own - (n + 1).log())[..., None, :] - (own - n.log())[..., :, None] - 0.5 * distance
    gain = torch.where(n[..., :, None] > 0, gain, -torch.inf)
    gain.diagonal(dim1=2, dim2=3).fill_(-torch.inf)
    return torch.nan_to_num(gain, nan=-torch.inf)


def _slots(counts: torch.Tensor, size: int) -> torch.Tensor:
    """Class indices [A, G, size] in rising order, of counts [A, G, C].

    >>> _slots(torch.tensor([[[1, 0, 2]]]), 3).tolist()
    [[[0, 2, 2]]]
    """
    places = torch.arange(size, device=counts.device).expand(*counts.shape[:2], size)
    return torch.searchsorted(counts.cumsum(2), places.contiguous(), right=True)
