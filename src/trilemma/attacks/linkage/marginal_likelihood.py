"""What messages say of one record, all others behind them integrated out.

G = a g(x) + rest + noise, a the record's share. The rest is a sum of records like the public ones:
given how many n_c of them are of each class it has mean Σ n_c μ_c and, within classes, one
covariance; Q is that covariance, of low rank, plus remainder · I for the noise and for what few
records do not span. A small rest is a mixture over the counts n, a large one a single Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.linkage.update_projections import Common, Factored, Parts, Sides, Written
from trilemma.attacks.posterior.candidate_updates import batch_contexts, contributions, seen_path
from trilemma.attacks.posterior.factored import linear_layers
from trilemma.attacks.posterior.inner_products import held_out_remainder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.attacks.base import View
    from trilemma.attacks.matching import ViewTensors
    from trilemma.attacks.posterior.posterior_inputs import Batch

__all__ = ["Rest", "layers_of"]


@dataclass(frozen=True, eq=False)
class Rest:
    """How V messages G without their record are distributed, for the updates u = a g(x) of any x.

    Q⁻¹ = (I - Rᵀ inner R) / remainder with P rows R, inner [V, P, P] and remainder [V]; turned
    [V, P, 1 + C] is `inner` times R's products with G and with the classes' parts μ_c. counts
    [H, C] have log weights `level` [V, H], with all that does not depend on u. `made` tells what u
    has in common with all these.
    """

    made: Written | Factored
    inner: torch.Tensor
    remainder: torch.Tensor
    turned: torch.Tensor
    counts: torch.Tensor
    level: torch.Tensor

    @classmethod
    def of(
        cls,
        units: ViewTensors,
        variance: torch.Tensor,
        population: Batch,
        seed: int,
        layers: tuple[str, ...] | None = None,
    ) -> tuple[Rest, torch.Tensor]:
        """The distribution that public records teach, and log p(G | x) [V, P] of those records.

        The noise has this variance [V]; `layers` as in `layers_of` (None: updates are written
        out).
        """
        made, parts, common, own = _made(units, population, seed, layers)
        free = population.count - (0 if parts.chance else parts.member.shape[1])
        inner, remainder = _covariance(common.rows, max(1, free), units.known.sum(1), variance)
        turned = inner @ common.row_vectors
        forms = common.vectors - common.row_vectors.transpose(1, 2) @ turned
        forms, counts = forms / remainder[:, None, None], parts.counts
        level = parts.level + forms[:, 0, 1:] @ counts.T
        level = level - ((counts @ forms[:, 1:, 1:]) * counts).sum(2) / 2
        distribution = cls(made, inner, remainder, turned, counts, level)
        return distribution, distribution._log_likelihood(own)

    @property
    def share(self) -> torch.Tensor:
        """The record's share a of a message, [V, m] or [V, 1]."""
        return self.made.share

    def at(self, messages: torch.Tensor) -> Rest:
        """The same for some of the messages, in any order and as often as they are named."""
        numbers = (self.inner, self.remainder, self.turned)
        inner, remainder, turned = (number[messages] for number in numbers)
        made, level = self.made.at(messages), self.level[messages]
        return Rest(made, inner, remainder, turned, self.counts, level)

    def log_likelihood(self, records: Batch) -> torch.Tensor:
        """log p(G | x) [V, n], up to a constant, of records x, n a message."""
        return self._log_likelihood(self.made.sides(records))

    def _log_likelihood(self, sides: Sides) -> torch.Tensor:
        """uᵀQ⁻¹G - ½ uᵀQ⁻¹u + log Σ_n exp(level_n - uᵀQ⁻¹ Σ n_c μ_c)."""
        # The gradient of rᵀAr is 2Ar, as A is symmetric: the product serves for both.
        rows = sides.rows.detach()
        form = sides.square - ((rows @ self.inner) * (2 * sides.rows - rows)).sum(2)
        found = (sides.vectors - sides.rows @ self.turned) / self.remainder[:, None, None]
        by_counts = self.level[:, None] - found[..., 1:] @ self.counts.T
        own = found[..., 0] - form / (2 * self.remainder[:, None])
        return own + torch.logsumexp(by_counts, 2)


def layers_of(views: Sequence[View], population: Batch) -> tuple[str, ...] | None:
    """The layers whose factors tell all that is asked of updates; None where there are none."""
    for seen in (view.observation for view in views):
        one_each = not isinstance(seen.weights, torch.Tensor) or seen.weights.ndim == 1
        whole = seen.known is None or bool(seen.known.all())
        if not (one_each and whole) or seen.clip is not None:
            return None
    view, weights = views[0], views[0].weights.to(population.inputs)
    return linear_layers(view.task, weights[None], population, view.local_training)


def _made(
    units: ViewTensors, population: Batch, seed: int, layers: tuple[str, ...] | None
) -> tuple[Written | Factored, Parts, Common, Sides]:
    """How updates are compared, what messages are made of, the learnt products, the records'."""
    view = units.view
    if layers is not None:
        parts = Parts.of(units, population, None, seed)
        factored = Factored.of(units, population, layers, parts)
        return factored, parts, *factored.learnt()
    path = seen_path(units, slice(None), population)
    beside = batch_contexts(view.task, path[0], population, view.local_training)
    updates = contributions(view.task, path[0], population, view.local_training, beside)
    parts = Parts.of(units, population, updates, seed)
    written = Written.of(units, population, path, updates, parts)
    return written, parts, written.common(), written.of_updates(updates)


def _covariance(
    products: torch.Tensor, free: int, known: torch.Tensor, noise: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(RRᵀ + free · remainder · I)⁻¹ and the remainder [V] of products RRᵀ [V, P, P].

    The remainder is the noise, and what new records have outside the span of the rows.
    """
    remainder = noise + held_out_remainder(products, known, noise)
    products.diagonal(dim1=1, dim2=2).add_(free * remainder[:, None])
    factor, failed = torch.linalg.cholesky_ex(products)
    inner = torch.cholesky_inverse(factor)
    return torch.where((failed > 0)[:, None, None], torch.nan, inner), remainder
