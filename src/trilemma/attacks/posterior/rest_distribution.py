"""The distribution of all that is not sought, and with it the likelihood of every candidate.

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

__all__ = [
    "Message",
    "by_classes",
    "count_vectors",
    "few_counts",
    "is_rounded",
    "least",
    "log_ways",
    "overall",
]

_COUNTS: Final = 12_000  # ways to spread a rest over the classes that are tried one by one
_REFINED: Final = 2  # of them, those that get the covariances of their own classes
_NONE: Final = 1e-12  # of an update's square
_ROUNDED: Final = 1e6  # the largest log likelihood that is told to a tenth in single precision
_SHRINK: Final = 3.0  # records' worth of trust in the covariance that all classes have in common


@dataclass(frozen=True, eq=False)
class Message:
    """How the observations of B units add up, in terms of a table's anchors and candidates.

    With candidate j they leave r_j = Σ_a mix_aj · anchor_a - share_j · candidate_j for the rest
    and the noise to explain: mix [B, A, N], share [B, N]. The covariance of that is spread [B]
    times one record's, plus remainder [B] on every coordinate. Where the sought record's client
    is clipped, its factor has variance jitter [B] (None: not clipped), along what it would send
    unclipped: Σ_a sent_a · anchor_a + full · candidate_j, sent [B, A], full [B]. Where it is not
    known how many records the rest has, drift [B, A] is the variance along each anchor.
    """

    mix: torch.Tensor
    share: torch.Tensor
    spread: torch.Tensor
    remainder: torch.Tensor
    jitter: torch.Tensor | None
    sent: torch.Tensor
    full: torch.Tensor
    drift: torch.Tensor | None = None

    def lifted(self) -> Message:
        """The same for forms with one more dimension behind the units."""
        return Message(
            self.mix[:, None],
            self.share[:, None],
            self.spread[:, None],
            self.remainder[:, None],
            None if self.jitter is None else self.jitter[:, None],
            self.sent[:, None],
            self.full[:, None],
        )


def overall(table: Table, message: Message) -> torch.Tensor:
    """log p(G | candidate) [B, N] up to a constant, the rest one Gaussian for all classes.

    N(0, spread · Σ + remainder · I), Σ the covariance of the population's rows.
    """
    members = table.rows.shape[1]
    weights = (message.spread / (members - 1))[:, None].expand(-1, members)
    forms = table.forms(weights, message.remainder)
    if message.drift is not None:
        for place in range(message.drift.shape[1]):
            forms = forms.widened(place, message.drift[:, place])
    return _log_density(forms, message, table.rows[:, :1, :0])[:, 0]


def few_counts(records: int, classes: int) -> bool:
    """Whether the ways to spread that many records over the classes can be tried one by one."""
    return math.comb(records + classes - 1, records) <= _COUNTS


def by_classes(table: Table, message: Message, member: torch.Tensor, records: int) -> torch.Tensor:
    """log p(G | candidate) [B, N] up to a constant, summed over the classes of the rest.

    The rest's `records` have equal shares and independent classes, as frequent as in the
    population; `member` [B, P, C] is one where a row has a class. Given counts n the rest has
    mean Σ n_c μ_c and covariance Σ n_c Σ_c, with Σ_c shrunk towards the classes' common one. All
    counts are weighed with the common covariance, then the likeliest few with their own.
    """
    members, classes = member.shape[1:]
    sizes = member.sum(1)
    table = class_table(table, member)
    counts = count_vectors(records, classes).to(sizes)
    prior = log_ways(counts, sizes)
    common = max(1, members - classes)
    weights = (message.spread / common)[:, None].expand(-1, members)
    scores = _log_density(
        table.forms(weights, message.remainder), message, counts.expand(len(sizes), -1, -1)
    )
    scores = scores + prior[..., None]

    likely = torch.logsumexp(scores, 2).topk(min(_REFINED, len(counts)), 1).indices
    chosen = counts[likely]
    trust = torch.where(sizes > 1, sizes / (sizes + _SHRINK), 0.0)[:, None]
    own = (chosen * trust / (sizes - 1).clamp(min=1)[:, None]) @ member.transpose(1, 2)
    weights = own + (chosen * (1 - trust)).sum(2, keepdim=True) / common
    weights = weights * (message.spread / max(1, records))[:, None, None]
    forms = table.forms(weights, message.remainder)
    refined = _log_density(forms, message.lifted(), chosen[:, :, None])[:, :, 0]
    refined = refined + torch.gather(prior, 1, likely)[..., None]
    places = likely[..., None].expand_as(refined)
    return torch.logsumexp(scores.scatter(1, places, refined), 1)


def _log_density(forms: Forms, message: Message, counts: torch.Tensor) -> torch.Tensor:
    """log N of what candidates and counts [..., V, C] leave, [..., V, N] up to a constant.

    The forms' last C anchors are the class means; the rest's records have the mean share.
    """
    share = message.share.mean(-1)[..., None, None]
    form = forms.of(message.mix, message.share, share * counts)
    log_det = forms.log_det[..., None, None]
    if message.jitter is None:
        return -(form + log_det) / 2
    # One more direction of the covariance, another for each candidate: Sherman-Morrison.
    full = message.full[..., None]
    sent = message.sent[..., None].expand_as(message.mix)
    along = forms.of(sent, -full.expand_as(message.share), -full[..., None] * counts)
    both = forms.of(message.mix + sent, message.share - full, (share - full[..., None]) * counts)
    jitter = message.jitter[..., None, None]
    inner = (both - form - along) / 2
    form = form - jitter * inner.square() / (1 + jitter * along)
    return -(form + log_det + torch.log1p(jitter * along)) / 2


def count_vectors(records: int, classes: int) -> torch.Tensor:
    """All ways [V, classes] to spread `records` over `classes`.

    >>> count_vectors(2, 2)
    tensor([[2, 0],
            [1, 1],
            [0, 2]])
    """
    ways = list(itertools.combinations_with_replacement(range(classes), records))
    return one_hot(torch.tensor(ways).reshape(len(ways), records).long(), classes).sum(1)


def log_ways(counts: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """log Π f_c^n_c / n_c! [..., V] of counts n [V, C], classes as frequent as sizes [..., C]."""
    frequency = (sizes / sizes.sum(-1, keepdim=True)).clamp(min=1e-9).log()
    return frequency @ counts.T - torch.lgamma(counts + 1).sum(1)


def is_rounded(table: Table, message: Message) -> bool:
    """Whether the rounding of single precision may show in a score."""
    shares = message.share * table.candidate.sqrt()
    gaps = table.anchor[:, 0, 0].sqrt()[:, None]
    largest = ((shares + gaps) * shares).amax(1) / message.remainder
    return not bool((largest < _ROUNDED).all())


def least(table: Table) -> torch.Tensor:
    """The remainder [B] that stands for none, where there is neither noise nor a rest."""
    return _NONE * table.candidate.mean(1) + torch.finfo(table.candidate.dtype).tiny
