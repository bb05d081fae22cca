"""The law of all that is not sought, and with it the likelihood of every candidate.

The rest is a sum of independent records of a population, so it is near a Gaussian. A small rest
is rather a mixture: of one Gaussian for every way in which its records spread over the classes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

import torch
from torch.nn.functional import one_hot

from trilemma.attacks.posterior.inner_products import Forms, Table, class_table

__all__ = ["Message", "by_classes", "few_counts", "overall"]

_COUNTS: Final = 2000  # ways to spread a rest over the classes that are tried one by one
_REFINED: Final = 4  # of them, those that get the covariances of their own classes
_SHRINK: Final = 3.0  # records' worth of trust in the covariance that all classes have in common


@dataclass(frozen=True, eq=False)
class Message:
    """How the observations of B units add up, in terms of a table's anchors and candidates.

    With candidate j they leave r_j = Σ_a mix_aj · anchor_a - share_j · candidate_j for the rest
    and the noise to explain: mix [B, A, N], share [B, N]. The covariance of that is spread [B]
    times one record's, plus remainder [B] on every coordinate, plus scale [B] (None: zero) along
    the observation itself, which is Σ_a observed_a · anchor_a, observed [B, A].
    """

    mix: torch.Tensor
    share: torch.Tensor
    spread: torch.Tensor
    remainder: torch.Tensor
    scale: torch.Tensor | None
    observed: torch.Tensor


def overall(table: Table, message: Message) -> torch.Tensor:
    """log p(G | candidate) [B, N] up to a constant, the rest one Gaussian for all classes.

    N(0, spread · Σ + remainder · I), Σ the covariance of the population's rows.
    """
    people = table.rows.shape[1]
    weights = (message.spread / max(1, people - 1))[:, None].expand(-1, people)
    forms = _forms(table, weights, message)
    return -forms.of_residuals(message.mix, message.share) / 2


def few_counts(records: int, classes: int | None) -> bool:
    """Whether the ways to spread that many records over the classes can be tried one by one."""
    return classes is not None and math.comb(records + classes - 1, records) <= _COUNTS


def by_classes(table: Table, message: Message, member: torch.Tensor, records: int) -> torch.Tensor:
    """log p(G | candidate) [B, N] up to a constant, summed over the classes of the rest.

    The rest's `records` have equal shares and independent classes, as frequent as in the
    population; `member` [B, P, C] is one where a row has a class. Given counts n the rest has
    mean Σ n_c μ_c and covariance Σ n_c Σ_c, with Σ_c shrunk towards the classes' common one. All
    counts are weighed with the common covariance, then the likeliest few with their own.
    """
    people, classes = member.shape[1:]
    sizes = member.sum(1)
    table = class_table(table, member)
    counts = _count_vectors(records, classes).to(sizes)
    share = message.share.mean(1)[:, None, None]
    frequency = (sizes / people).clamp(min=1e-9).log()
    prior = frequency @ counts.T - torch.lgamma(counts + 1).sum(1)
    common = max(1, people - classes)
    weights = (message.spread / common)[:, None].expand(-1, people)
    scores = _scores(_forms(table, weights, message), message.mix, message.share, share * counts)
    scores = scores + prior[..., None]

    likely = torch.logsumexp(scores, 2).topk(min(_REFINED, len(counts)), 1).indices
    chosen = counts[likely]
    trust = torch.where(sizes > 1, sizes / (sizes + _SHRINK), 0.0)[:, None]
    own = (chosen * trust / (sizes - 1).clamp(min=1)[:, None]) @ member.transpose(1, 2)
    weights = own + (chosen * (1 - trust)).sum(2, keepdim=True) / common
    weights = weights * (message.spread / max(1, records))[:, None, None]
    refined = _scores(
        _forms(table, weights, message),
        message.mix[:, None],
        message.share[:, None],
        (share * chosen)[:, :, None],
    )[:, :, 0]
    refined = refined + torch.gather(prior, 1, likely)[..., None]
    places = likely[..., None].expand_as(refined)
    return torch.logsumexp(scores.scatter(1, places, refined), 1)


def _forms(table: Table, weights: torch.Tensor, message: Message) -> Forms:
    forms = table.forms(weights, message.remainder)
    if message.scale is None:
        return forms
    direction = torch.zeros_like(table.anchor[:, 0])
    direction[:, : message.mix.shape[1]] = message.observed
    middle = [None] * (weights.ndim - 2)
    return forms.widened(direction[(slice(None), *middle)], message.scale[(slice(None), *middle)])


def _scores(
    forms: Forms, mix: torch.Tensor, share: torch.Tensor, shifts: torch.Tensor
) -> torch.Tensor:
    """log N(r_j - Σ_c shift_c μ_c; Q) [..., V, N] for the shifts [..., V, C] of the class means.

    The class means are the forms' last anchors; mix [..., A, N] is of the others.
    """
    first = mix.shape[-2]
    means = forms.anchor[..., first:, first:]
    plain = Forms(
        forms.anchor[..., :first, :first],
        forms.anchor_candidate[..., :first, :],
        forms.candidate,
        forms.log_det,
    )
    base = plain.of_residuals(mix, share)
    moved = share[..., None, :] * forms.anchor_candidate[..., first:, :]
    moved = moved - forms.anchor[..., first:, :first] @ mix
    quadratic = base[..., None, :] + 2 * shifts @ moved
    quadratic = quadratic + ((shifts @ means) * shifts).sum(-1, keepdim=True)
    return -(quadratic + forms.log_det[..., None, None]) / 2


def _count_vectors(records: int, classes: int) -> torch.Tensor:
    """All ways [V, classes] to spread `records` over `classes`.

    >>> _count_vectors(2, 2)
    tensor([[2, 0],
            [1, 1],
            [0, 2]])
    """
    ways = list(itertools.combinations_with_replacement(range(classes), records))
    return one_hot(torch.tensor(ways).reshape(len(ways), records).long(), classes).sum(1)
