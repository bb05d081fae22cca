"""Products of records' updates with a distribution's rows and vectors, written out or by factors.

A distribution is made of rows R, public records' updates around the means of their classes, and of
vectors v: the message itself, then the classes' parts in the rest. Of a record's update u = a g(x)
nothing is asked but u·R, u·v and u·u. Where layers are linear, factors tell them for far less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.functional import one_hot

from trilemma.attacks.posterior.candidate_updates import Path, batch_contexts, contributions
from trilemma.attacks.posterior.factored import Factors, factors
from trilemma.attacks.posterior.rest_distribution import count_vectors, few_counts, log_ways
from trilemma.entropy import Seeded

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.attacks.matching import ViewTensors
    from trilemma.attacks.posterior.posterior_inputs import Batch
    from trilemma.learning import BatchNormContext

__all__ = ["Common", "Factored", "Parts", "Sides", "Written"]

_DRAWS: Final = 32  # batches of public records that stand for a clipped client's


@dataclass(frozen=True, eq=False)
class Parts:
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
    def of(
        cls, units: ViewTensors, population: Batch, made: torch.Tensor | None, seed: int
    ) -> Parts:
        """Of clipped updates those that public records make, [V, P, m], are looked at."""
        view, weights = units.view, units.client_weights
        classes, clip = view.task.classes, view.observation.clip
        size = view.local_training.unit_size
        chance = view.local_training.sampling == "poisson"
        if clip is not None and made is not None:
            kept = _kept(made, clip, size, seed)
            weights = weights * kept.reshape(-1, *[1] * (weights.ndim - 1))
        weights = weights.reshape(*weights.shape[:2], -1)  # [V, K, 1] or [V, K, m]
        others = torch.full((weights.shape[1], 1), float(size)).to(weights)
        others[0] -= 0 if chance else 1
        share = weights[:, 0] / size
        spread = (others * weights.square()).sum(1) / size**2
        alike = clip is None and not chance and bool((weights == weights[:, :1]).all())
        if classes is not None and alike and few_counts(view.records - 1, classes):
            counts = count_vectors(view.records - 1, classes).to(weights)
            member = one_hot(population.labels, classes).to(weights)
            level = log_ways(counts, member.sum(0))
            return cls(share, spread, share, counts, level, member, chance)
        one = weights.new_ones(1, 1)
        scale = (others * weights).sum(1) / size
        member = one.expand(population.count, 1)
        return cls(share, spread, scale, one, 0 * one[0], member, chance)


@dataclass(frozen=True, eq=False)
class Sides:
    """Products of n updates a message: with rows [V, n, P], vectors [V, n, 1 + C], and squares."""

    rows: torch.Tensor
    vectors: torch.Tensor
    square: torch.Tensor


@dataclass(frozen=True, eq=False)
class Common:
    """A distribution's own products: of rows [V, P, P], with vectors [V, P, 1 + C], of vectors."""

    rows: torch.Tensor
    row_vectors: torch.Tensor
    vectors: torch.Tensor


@dataclass(frozen=True, eq=False)
class Written:
    """By the updates themselves: rows [V, P, m] and vectors [V, 1 + C, m].

    `share` [V, m] is a; `path`: models [V, m] at which a record is used, and the mean contribution
    of the records `population` there, beside which a record may have to stand.
    """

    view: View
    population: Batch
    path: Path
    share: torch.Tensor
    rows: torch.Tensor
    vectors: torch.Tensor

    @classmethod
    def of(
        cls, units: ViewTensors, population: Batch, path: Path, updates: torch.Tensor, parts: Parts
    ) -> Written:
        """Of the public records' updates [V, P, m]."""
        known, member = units.known, parts.member
        means = (updates.transpose(1, 2) @ member / member.sum(0).clamp(min=1)).transpose(1, 2)
        # Records that join by chance bring the variance of their mean along.
        rows = updates if parts.chance else updates - member @ means
        rows = rows * (known * parts.spread.sqrt())[:, None]
        means = means * (known * parts.scale)[:, None]
        vectors = torch.cat([units.update[:, None], means], 1)
        return cls(units.view, population, path, known * parts.share, rows, vectors)

    def common(self) -> Common:
        turned = self.vectors.transpose(1, 2)
        rows = self.rows @ self.rows.transpose(1, 2)
        return Common(rows, self.rows @ turned, self.vectors @ turned)

    @cached_property
    def beside(self) -> list[BatchNormContext] | None:
        """What a record finds beside it in its batch."""
        return batch_contexts(
            self.view.task, self.path[0], self.population, self.view.local_training
        )

    def sides(self, records: Batch) -> Sides:
        """Of records, n a message."""
        view = self.view
        made = contributions(view.task, self.path[0], records, view.local_training, self.beside)
        return self.of_updates(made)

    def of_updates(self, made: torch.Tensor) -> Sides:
        """Of contributions [V, n, m]."""
        update = made * self.share[:, None]
        rows, vectors = (update @ value.transpose(1, 2) for value in (self.rows, self.vectors))
        return Sides(rows, vectors, update.square().sum(2))

    def at(self, messages: torch.Tensor) -> Written:
        """For some of the messages."""
        path = [item[messages] for item in self.path[0]], self.path[1][messages]
        numbers = (self.share, self.rows, self.vectors)
        return Written(self.view, self.population, path, *(number[messages] for number in numbers))


@dataclass(frozen=True, eq=False)
class Factored:
    """By factors of single gradients at weights [V, m], every coordinate of update [V, m] read.

    `population` are the public records' factors; `share`, `root` and `scale` [V, 1] are what a
    record, a row and a class's mean are multiplied by. `member` [P, C] says which classes a row
    belongs to, `centred` whether it is taken around their mean.
    """

    view: View
    layers: tuple[str, ...]
    weights: torch.Tensor
    update: torch.Tensor
    population: Factors
    share: torch.Tensor
    root: torch.Tensor
    scale: torch.Tensor
    member: torch.Tensor
    centred: bool

    @classmethod
    def of(
        cls, units: ViewTensors, population: Batch, layers: tuple[str, ...], parts: Parts
    ) -> Factored:
        view, weights = units.view, units.weights
        found = factors(view.task, layers, weights, population, view.local_training)
        return cls(
            *(view, layers, weights, units.update, found, parts.share, parts.spread.sqrt()),
            *(parts.scale, parts.member, not parts.chance),
        )

    def learnt(self) -> tuple[Common, Sides]:
        """The products of the distribution, and of the public records: of the same two tables."""
        products = self.population.products(self.population)
        seen = self.population.with_vectors(self.update[:, None])
        return self._common(products, seen), self._of(self.population, products, seen)

    def _common(self, products: torch.Tensor, seen: torch.Tensor) -> Common:
        to_means = self._means(products)  # of each record with the classes' means
        own = self._means(to_means.transpose(1, 2))
        observed = self._means(seen.transpose(1, 2))
        if self.centred:
            away = to_means @ self.member.T
            products = products - away - away.transpose(1, 2) + self.member @ own @ self.member.T
            to_means = to_means - self.member @ own
            seen = seen - self.member @ observed.transpose(1, 2)
        root, scale = self.root[:, None], self.scale[:, None]
        message = self.update.square().sum(1)[:, None, None]
        return Common(
            root.square() * products,
            root * torch.cat([seen, scale * to_means], 2),
            torch.cat(
                [
                    torch.cat([message, scale * observed], 2),
                    torch.cat([scale * observed.transpose(1, 2), scale.square() * own], 2),
                ],
                1,
            ),
        )

    def sides(self, records: Batch) -> Sides:
        """Of records, n a message."""
        view = self.view
        made = factors(view.task, self.layers, self.weights, records, view.local_training)
        products = made.products(self.population)
        return self._of(made, products, made.with_vectors(self.update[:, None]))

    def _of(self, made: Factors, products: torch.Tensor, seen: torch.Tensor) -> Sides:
        """Of records, by their products with the public ones and with the message."""
        share = self.share[:, None]
        products = share * products
        means = self._means(products)
        rows = products - means @ self.member.T if self.centred else products
        return Sides(
            self.root[:, None] * rows,
            torch.cat([share * seen, self.scale[:, None] * means], 2),
            self.share.square() * made.squares(),
        )

    def _means(self, products: torch.Tensor) -> torch.Tensor:
        """Products [V, n, C] with the classes' means, of those with rows [V, n, P]."""
        return products @ (self.member / self.member.sum(0).clamp(min=1))

    def at(self, messages: torch.Tensor) -> Factored:
        """For some of the messages."""
        population = replace(
            self.population,
            inputs=tuple(item[messages] for item in self.population.inputs),
            gradients=tuple(gradient[messages] for gradient in self.population.gradients),
        )
        return replace(
            self,
            weights=self.weights[messages],
            update=self.update[messages],
            population=population,
            share=self.share[messages],
            root=self.root[messages],
            scale=self.scale[messages],
        )


def _kept(made: torch.Tensor, clip: float, size: int, seed: int) -> torch.Tensor:
    """The mean [V] of min(1, clip / ‖u‖) over updates u of batches of records [V, P, m]."""
    generator = Seeded(seed).torch_generator("clipped batches")
    drawn = torch.randint(0, made.shape[1], (_DRAWS, size), generator=generator).to(made.device)
    norms = torch.stack([made[:, item].mean(1).norm(dim=1) for item in drawn], 1)
    return (clip / norms.clamp(min=torch.finfo(made.dtype).tiny)).clamp(max=1.0).mean(1)
