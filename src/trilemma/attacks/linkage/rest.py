"""What messages say of one record, all others behind them integrated out.

G = a g(x) + rest + noise, a the record's share. The rest is a sum of records like the public ones:
given how many n_c of them are of each class it has mean Σ n_c μ_c and, within classes, one
covariance; Q is that covariance, of low rank, plus remainder · I for the noise and for what few
records do not span. A small rest is a mixture over the counts n, a large one a single Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.functional import one_hot

from trilemma.attacks.posterior.candidate_updates import Path, contributions, seen_path
from trilemma.attacks.posterior.inner_products import held_out_remainder
from trilemma.attacks.posterior.rest_law import count_vectors, few_counts, log_ways
from trilemma.entropy import Seeded

if TYPE_CHECKING:
    from trilemma.attacks.matching import Units
    from trilemma.attacks.posterior.units import Batch

__all__ = ["Rest"]

_DRAWS: Final = 32  # batches of public records that stand for a clipped client's


@dataclass(frozen=True, eq=False)
class Rest:
    """The law of V messages G without their record, ready for the updates u = a g(x) of any x.

    `path`: models [V, m] at which a record is used, and the mean contribution [V, m] there.
    share [V, m] is a. Q⁻¹ = (I - Rᵀ inner R) / remainder with rows R [V, P, m], inner [V, P, P]
    and remainder [V]; pulled [V, m] is Q⁻¹ G and turned [V, C, m] are Q⁻¹ μ_c. counts [H, C] have
    log weights `level` [V, H], with all that does not depend on u.
    """

    path: Path
    share: torch.Tensor
    rows: torch.Tensor
    inner: torch.Tensor
    remainder: torch.Tensor
    pulled: torch.Tensor
    turned: torch.Tensor
    counts: torch.Tensor
    level: torch.Tensor

    @classmethod
    def of(
        cls, units: Units, variance: torch.Tensor, people: Batch, seed: int
    ) -> tuple[Rest, torch.Tensor]:
        """The law that public records teach, and log p(G | x) [V, P] of those records.

        The noise has this variance [V].
        """
        path = seen_path(units, slice(None), people)
        made = contributions(
            units.view.task, path[0], people, units.view.local_training, (people, path[1])
        )
        parts = _Parts.of(units, people, made, seed)
        known = units.known
        means = made.transpose(1, 2) @ parts.member / parts.member.sum(0).clamp(min=1)
        means = means.transpose(1, 2)
        # Records that join by chance bring the variance of their mean along.
        rows = made if parts.chance else made - parts.member @ means
        free = max(1, made.shape[1] - (0 if parts.chance else parts.member.shape[1]))
        rows = rows * (known * parts.spread.sqrt())[:, None]
        inner, remainder = _covariance(rows, free, known.sum(1), variance)

        def solved(vectors: torch.Tensor) -> torch.Tensor:
            along = (vectors @ rows.transpose(1, 2)) @ inner @ rows
            return (vectors - along) / remainder[:, None, None]

        means = means * (known * parts.scale)[:, None]
        turned, counts = solved(means), parts.counts
        own = (turned @ units.update[..., None])[..., 0]
        cross = turned @ means.transpose(1, 2)
        level = parts.level + own @ counts.T - ((counts @ cross) * counts).sum(2) / 2
        pulled = solved(units.update[:, None])[:, 0]
        law = cls(
            *(path, known * parts.share, rows, inner, remainder),
            *(pulled, turned, counts, level),
        )
        return law, law.log_likelihood(made)

    def log_likelihood(self, made: torch.Tensor) -> torch.Tensor:
        """log p(G | x) [V, n], up to a constant, of records with contributions [V, n, m].

        uᵀQ⁻¹G - ½ uᵀQ⁻¹u + log Σ_n exp(level_n - uᵀQ⁻¹ Σ n_c μ_c).
        """
        update = made * self.share[:, None]
        along = update @ self.rows.transpose(1, 2)
        form = update.square().sum(2) - ((along @ self.inner) * along).sum(2)
        by_counts = self.level[:, None] - (update @ self.turned.transpose(1, 2)) @ self.counts.T
        found = (update @ self.pulled[..., None])[..., 0]
        return found - form / (2 * self.remainder[:, None]) + torch.logsumexp(by_counts, 2)


@dataclass(frozen=True, eq=False)
class _Parts:
    """How a message is made of records.

    The sought one has share [V, m or 1]; the others have shares whose squares add up to `spread`
    [V, m or 1], and mean `scale` [V, m or 1] times Σ n_c μ_c for counts n [H, C] of log weights
    level [H], or [V, H]. `member` [P, C] is one where a public record counts for a class;
    `chance`: whether it is left to chance how many others there are.
    """

    share: torch.Tensor
    spread: torch.Tensor
    scale: torch.Tensor
    counts: torch.Tensor
    level: torch.Tensor
    member: torch.Tensor
    chance: bool

    @classmethod
    def of(cls, units: Units, people: Batch, made: torch.Tensor, seed: int) -> _Parts:
        view, weights = units.view, units.client_weights
        classes, clip = view.task.classes, view.observation.clip
        size = view.local_training.unit_size
        chance = view.local_training.sampling == "poisson"
        if clip is not None:
            kept = _kept(made, clip, size, seed)
            weights = weights * kept.reshape(-1, *[1] * (weights.ndim - 1))
        weights = weights.reshape(*weights.shape[:2], -1)  # [V, K, 1] or [V, K, m]
        others = torch.full((weights.shape[1], 1), float(size)).to(weights)
        others[0] -= 0 if chance else 1
        share = weights[:, 0] / size
        spread = (others * weights.square()).sum(1) / size**2
        alike = clip is None and not chance and bool((weights == weights[:, :1]).all())
        if classes is not None and alike and few_counts(view.records - 1, classes):
            counts = count_vectors(view.records - 1, classes).to(made)
            member = one_hot(people.labels, classes).to(made)
            level = log_ways(counts, member.sum(0))
            return cls(share, spread, share, counts, level, member, chance)
        one = made.new_ones(1, 1)
        scale = (others * weights).sum(1) / size
        member = one.expand(made.shape[1], 1)
        return cls(share, spread, scale, one, 0 * one[0], member, chance)


def _covariance(
    rows: torch.Tensor, free: int, known: torch.Tensor, noise: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(RRᵀ + free · remainder · I)⁻¹ [V, P, P] and the remainder [V] of rows R [V, P, m].

    The remainder is the noise, and what new records have outside the span of the rows.
    """
    products = rows @ rows.transpose(1, 2)
    remainder = noise + held_out_remainder(products, known, noise)
    products.diagonal(dim1=1, dim2=2).add_(free * remainder[:, None])
    factor, failed = torch.linalg.cholesky_ex(products)
    inner = torch.cholesky_inverse(factor)
    return torch.where((failed > 0)[:, None, None], torch.nan, inner), remainder


def _kept(made: torch.Tensor, clip: float, size: int, seed: int) -> torch.Tensor:
    """The mean [V] of min(1, clip / ‖u‖) over updates u of batches of records [V, P, m]."""
    generator = Seeded(seed).torch_generator("clipped batches")
    drawn = torch.randint(0, made.shape[1], (_DRAWS, size), generator=generator).to(made.device)
    norms = torch.stack([made[:, each].mean(1).norm(dim=1) for each in drawn], 1)
    return (clip / norms.clamp(min=torch.finfo(made.dtype).tiny)).clamp(max=1.0).mean(1)
