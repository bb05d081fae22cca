"""The Gaussian posterior: an attacker who has the candidates, but not the rest of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import torch
from torch.nn.functional import one_hot

from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View
from trilemma.attacks.posterior.candidate_updates import (
    Path,
    batch_contexts,
    bent_models,
    contributions,
    likely_walk,
    seen_path,
    simulable,
)
from trilemma.attacks.posterior.clipped_distribution import (
    ClipFactors,
    clip_factors,
    simulated_factors,
)
from trilemma.attacks.posterior.exact_values import exact_values_told
from trilemma.attacks.posterior.factored import factored_table, factors, linear_layers
from trilemma.attacks.posterior.inner_products import (
    Rows,
    Table,
    held_out_remainder,
    tabulate,
    variance,
)
from trilemma.attacks.posterior.large_models import Read
from trilemma.attacks.posterior.posterior_inputs import (
    Batch,
    beliefs,
    blocks,
    flat_weights,
    stacked,
    units_of,
)
from trilemma.attacks.posterior.rest_distribution import (
    Message,
    by_classes,
    few_counts,
    is_rounded,
    least,
    overall,
)
from trilemma.attacks.posterior.turned_axes import are_many
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.attacks.matching import ViewTensors

__all__ = ["GaussianPosterior"]

_TOGETHER: Final = 2**22  # numbers of units attacked at once: more fit no cache
_FEWEST: Final = 4  # records on which a distribution can be fitted
_OWN: Final = 0.3  # of the variance of a large model's coordinates, as if they were independent


@dataclass(frozen=True)
class GaussianPosterior:
    """π(j) ∝ p(G | candidate j), the rest of the batch and cohort drawn from a population.

    log p = -½ (G - E_j)ᵀ Q⁻¹ (G - E_j) by Woodbury, E_j the expected observation with candidate j
    and Q the covariance of the rest, of low rank plus a remainder, and of the noise. The moments
    are those of single records' updates at the unit's model, a small rest's summed over classes.
    The population is `knowledge.population`, the public records where there is none; the sought
    record belongs to the first client.

    Approximate where shares do not simply add up: several local steps are taken along the path
    that the observation shows, a clipped client's factor is that of batches of the population
    with the candidate, and coordinates that some clients did not send are independent beyond
    what all have in common. Where BatchNorm couples records, batches of the population are
    simulated (`large`). What single values tell exactly is added (`exact_values`).
    """

    name: ClassVar[str] = "gaussian-posterior"
    knows: ClassVar[KnowledgeLevel] = "candidates"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = units_of(views)
        view, like = units.view, units.weights
        candidate_sets = stacked(
            [v.knowledge.candidate_set for v in views], "a candidate set", self.knows
        )
        owned = [v.knowledge.population or v.knowledge.public for v in views]
        population = stacked(owned, "a population or public records", self.knows)
        if population.count < _FEWEST:
            raise InvalidInput(
                f"the distribution of the rest cannot be fitted on {population.count} records; "
                f"give at least {_FEWEST}."
            )
        layers = None
        if bool((units.known == 1).all()):
            few = population.rows(0, _FEWEST).to(like)
            layers = linear_layers(view.task, like, few, view.local_training)
        numbers = view.task.layout.size if layers is None else 2 * population.count
        held = numbers * (candidate_sets.count + population.count)
        simulated = simulable(view.task, view.local_training, population)
        scores = [
            _Block(
                units,
                slice(start, stop),
                candidate_sets.units(start, stop).to(like),
                population.units(start, stop).to(like),
                seed,
                layers,
            ).scores()
            for start, stop in blocks(len(units), 1 if simulated else _TOGETHER // held)
        ]
        return beliefs(torch.cat(scores) + exact_values_told(units, candidate_sets), views)


@dataclass(frozen=True, eq=False)
class _Block:
    """B units and what their attacker owns: N candidates and P records of a population each.

    `layers` are those of which updates are made by factors (None: updates are written out).
    """

    units: ViewTensors
    block: slice
    candidate_sets: Batch
    population: Batch
    seed: int
    layers: tuple[str, ...] | None

    def scores(self) -> torch.Tensor:
        """log p(G | candidate) [B, N], up to a constant each."""
        view, known = self.units.view, self.units.known[self.block]
        task, weights = view.task, self.units.client_weights[self.block]
        flat, factors = flat_weights(weights, known), None
        if flat is not None and self.layers is not None:
            table = self._factored()
        elif flat is not None and self._is_large():
            table, factors = self._read(flat)
        else:
            averaged, gap, table = self._written()
        clip, size = view.observation.clip, view.local_training.unit_size
        whole = task.layout.size / known.sum(1).clamp(min=1)
        factors = factors or clip_factors(table, clip, size=size, whole=whole, seed=self.seed)
        if flat is None:
            table, message = self._own_places(averaged, gap, table, factors)
        else:
            message = self._message(table, flat, factors)
        if weights.dtype == torch.float32 and is_rounded(table, message):
            return self._doubled().scores()
        if flat is None or not self._by_classes(flat):
            return overall(table, message).double()
        member = one_hot(self.population.labels, task.classes or 0).to(weights)
        member = member.expand(len(weights), -1, -1)  # where all units share them
        return by_classes(table, message, member, view.records - 1).double()

    def _written(self) -> tuple[Path, torch.Tensor, Table]:
        """The average client's path, the gap [B, m] to it, and the table of updates around it."""
        known = self.units.known[self.block]
        averaged = seen_path(self.units, self.block, self.population)
        mean = known * averaged[1]
        gap = self.units.update[self.block] - self._total() * mean
        table = self._table(averaged, (known, known), torch.stack([gap, mean], 1))
        return averaged, gap, table

    def _read(self, weights: torch.Tensor) -> tuple[Table, ClipFactors | None]:
        """What is read of a large unit, whose clients have weights [1, K], as a table.

        And how much clipping shortens its batches, where they were simulated.
        """
        view, path = self.units.view, [self.units.weights[self.block]]
        if view.local_training.algorithm == "fedavg":
            path = bent_models(*likely_walk(self.units, self.block, self.population))
        read = Read.of(
            *(view.task, path, self.units.update[self.block], self.units.known[self.block]),
            *(self.population, self.candidate_sets, view.local_training, self.seed),
            clipped=view.observation.clip is not None,
        )
        factors, kept = None, torch.ones_like(weights[:, 0])
        if read.norms is not None:
            factors = simulated_factors(
                read.norms, view.observation.clip, self.candidate_sets.count
            )
            kept = factors.others.square()
        shares = weights / view.local_training.unit_size
        own = kept * self._own() * (self._counts() * shares.square()).sum(1)
        batches = kept * weights.square().sum(1)
        free = own if self._own() else None
        return read.table(weights.sum(1), free, self._noise(), batches), factors

    def _own(self) -> float:
        """The share of the rest's variance that is taken as each read coordinate's own."""
        free = self.units.view.observation.clip is None or self._is_simulated()
        return _OWN if self._is_large() and free else 0.0

    def _factored(self) -> Table:
        """The table of updates that are single gradients, all coordinates known, by factors."""
        view, models = self.units.view, self.units.weights[self.block]
        assert self.layers is not None
        population, candidates = (
            factors(view.task, self.layers, models, value, view.local_training)
            for value in (self.population, self.candidate_sets)
        )
        mean = population.mean()
        gap = self.units.update[self.block] - self._total() * mean
        known = self.units.known[self.block].sum(1)
        anchors = torch.stack([gap, mean], 1)
        return factored_table(population, candidates, mean, anchors, known)

    def _total(self) -> torch.Tensor:
        """The sum of the clients' weights, [B, 1] or [B, m]."""
        weights = self.units.client_weights[self.block]
        return weights.sum(1).reshape(len(weights), -1)

    def _by_classes(self, weights: torch.Tensor) -> bool:
        """Whether the rest is a known, small number of records of equal shares, with classes."""
        view = self.units.view
        if view.task.classes is None or view.records == 1 or self._poisson():
            return False
        if view.observation.clip is not None and view.observation.clients > 1:
            return False
        equal = bool((weights == weights[:, :1]).all())
        return equal and few_counts(view.records - 1, view.task.classes)

    def _is_large(self) -> bool:
        """Whether some coordinates are read: as good as all, or better where simulated."""
        alone = self.layers is None and len(self.units.weights[self.block]) == 1
        return alone and (self._is_simulated() or are_many(self.units.view.task.layout.size))

    def _is_simulated(self) -> bool:
        return simulable(self.units.view.task, self.units.view.local_training, self.population)

    def _doubled(self) -> _Block:
        """The same units in double precision."""
        units = replace(
            self.units,
            **{
                name: getattr(self.units, name).double()
                for name in ("weights", "update", "known", "client_weights", "noise")
            },
        )
        like = units.weights
        return replace(
            self,
            units=units,
            candidate_sets=self.candidate_sets.to(like),
            population=self.population.to(like),
        )

    def _rows(self, batch: Batch, averaged: Path, scale: torch.Tensor) -> Rows:
        """Makes centred contributions, scaled by coordinate [B, m]."""
        view, (path, mean) = self.units.view, averaged
        beside = batch_contexts(view.task, path, self.population, view.local_training)

        def rows(start: int, stop: int) -> torch.Tensor:
            some = batch.rows(start, stop)
            made = contributions(view.task, path, some, view.local_training, beside)
            return made.sub_(mean[:, None]).mul_(scale[:, None])

        return rows

    def _table(
        self, averaged: Path, scales: tuple[torch.Tensor, torch.Tensor], anchors: torch.Tensor
    ) -> Table:
        return tabulate(
            (self._rows(self.population, averaged, scales[0]), self.population.count),
            (self._rows(self.candidate_sets, averaged, scales[1]), self.candidate_sets.count),
            anchors,
            self.units.known[self.block].sum(1),
        )

    def _noise(self) -> torch.Tensor:
        return self.units.noise[self.block].square()

    def _counts(self) -> torch.Tensor:
        """How many records [K] each client adds to the rest, on average."""
        view = self.units.view
        counts = torch.full((view.observation.clients,), float(view.local_training.unit_size))
        if not self._poisson():
            counts[0] -= 1
        return counts.to(self.units.weights)

    def _poisson(self) -> bool:
        """Whether the sought record comes on top of a batch of unknown size.

        The others then join independently and rarely: a Poisson number of them.
        """
        return self.units.view.local_training.sampling == "poisson"

    def _message(self, table: Table, weights: torch.Tensor, factors: ClipFactors) -> Message:
        """How clients of weights [B, K] add up; anchors: the gap to the mean, and the mean."""
        shares = weights / self.units.view.local_training.unit_size
        own, others = weights[:, :1], weights[:, 1:].sum(1, keepdim=True)
        squares = self._counts() * shares.square()
        spread = squares[:, 0] * factors.own.square().mean(1)
        spread = spread + squares[:, 1:].sum(1) * factors.others.square()
        if own_share := self._own():
            remainder = torch.ones_like(spread)
        else:
            outside = held_out_remainder(table.rows, table.known, self._noise() / spread)
            remainder = torch.maximum(self._noise() + spread * outside, least(table))
        cut = own * (1 - factors.own) + others * (1 - factors.others[:, None])
        if self._poisson():
            cut = cut - shares[:, :1] * factors.own
        return Message(
            torch.stack([torch.ones_like(cut), cut], 1),
            shares[:, :1] * factors.own,
            (1 - own_share) * spread,
            remainder,
            factors.jitter,
            torch.cat([torch.zeros_like(own), own], 1),
            shares[:, 0],
            torch.stack([0 * spread, spread], 1) if self._poisson() else None,
        )

    def _own_places(
        self, averaged: Path, gap: torch.Tensor, table: Table, factors: ClipFactors
    ) -> tuple[Table, Message]:
        """What adds up where clients sent coordinates of their own, weights [B, K, m].

        The rest's covariance Σ_k n_k (w_k w_kᵀ) ∘ Σ / S² is taken as (v vᵀ) ∘ Σ and a diagonal, v
        along the weights' leading direction, and coordinates are measured in its units.
        """
        weights = self.units.client_weights[self.block]
        size = self.units.view.local_training.unit_size
        known, mean = self.units.known[self.block], averaged[1]
        kept = factors.others[:, None].expand(-1, weights.shape[1]).clone()
        kept[:, 0] = factors.own.square().mean(1).sqrt()
        rows = weights * (kept * self._counts().sqrt() / size)[..., None]
        lead = torch.linalg.eigh(rows @ rows.transpose(1, 2)).eigenvectors[..., -1:]
        along = (rows * lead).sum(1).abs()
        spread = rows.square().sum(1)
        diagonal = (spread - along.square()).clamp(min=0) * variance(
            self._rows(self.population, averaged, torch.ones_like(mean)),
            self.population.count,
            mean.numel(),
        )
        outside = held_out_remainder(table.rows, table.known, 0 * table.known)[:, None]
        diagonal = diagonal + self._noise()[:, None] + along.square() * outside
        unit = known / torch.maximum(diagonal, least(table)[:, None]).sqrt()
        own, others = unit * weights[:, 0], unit * weights[:, 1:].sum(1)
        anchors = torch.stack([unit * gap, own * mean, others * mean], 1)
        scaled = self._table(averaged, (unit * along, own / size), anchors)
        one = torch.ones_like(factors.own)
        cut = 1 - factors.own - (factors.own / size if self._poisson() else 0)
        clients = weights.shape[1]
        drift = one.new_tensor([0.0, 1 / size, 1 / (size * max(1, clients - 1))])
        message = Message(
            torch.stack([one, cut, (1 - factors.others[:, None]) * one], 1),
            factors.own,
            one[:, 0],
            one[:, 0],
            factors.jitter,
            one.new_tensor([0.0, 1.0, 0.0]).expand(len(one), -1),
            one[:, 0],
            drift.expand(len(one), -1) if self._poisson() else None,
        )
        return scaled, message
