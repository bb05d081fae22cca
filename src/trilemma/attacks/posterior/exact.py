"""The exact posterior: an attacker who knows everything but which candidate was used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import torch

from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View
from trilemma.attacks.matching import explained_update
from trilemma.attacks.posterior.by_record import scores_by_record
from trilemma.attacks.posterior.candidate_updates import contributions
from trilemma.attacks.posterior.posterior_inputs import (
    Batch,
    beliefs,
    blocks,
    held_at_once,
    stacked,
    units_of,
)
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.attacks.matching import ViewTensors
    from trilemma.observations import Noise

__all__ = ["ExactPosterior"]

_HELD: Final = 2**21  # numbers held at once, updates times coordinates: more fit no cache


@dataclass(frozen=True)
class ExactPosterior:
    """π(j) ∝ p(G | all other records, candidate j): Bayes-optimal, by the very client update.

    Gaussian noise of deviation s on the known coordinates: log π(j) = -‖G - G_j‖² / 2s² up to a
    constant, G_j the noise-free observation with candidate j in its place, clipped as all know;
    Laplace noise: -‖G - G_j‖₁ / b; uniform noise: even over the candidates within its half-width
    everywhere; no noise: the nearest. Where batches are
    of unlike sizes, or it is not known if a round used the record, updates are added up record by
    record (`trilemma.attacks.posterior.by_record`).
    """

    name: ClassVar[str] = "exact-posterior"
    knows: ClassVar[KnowledgeLevel] = "rest"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        owned = [view.knowledge for view in views]
        known = [part for item in owned for part in (item.present, item.rate, item.others)]
        if any(part is not None for part in known):
            return beliefs(scores_by_record(views, _log_likelihood), views)
        units = units_of(views, at_limit=True)
        view, like = units.view, units.weights
        candidate_sets = stacked(
            [v.knowledge.candidate_set for v in views], "a candidate set", self.knows
        )
        rests = stacked([v.knowledge.rest for v in views], "the other records", self.knows)
        slots = _slots(views, rests)
        noises = [v.observation.noise for v in views]
        scores, linear = [], _adds_up(view, rests)
        held = view.task.layout.size * (candidate_sets.count + view.records)
        for start, stop in blocks(len(units), _HELD // held):
            gaps = _Gaps(
                units,
                slice(start, stop),
                rests.units(start, stop).to(like).expanded(stop - start),
                slots[start:stop].to(like.device),
                linear,
            )
            some, known_noise = candidate_sets.units(start, stop).to(like), noises[start:stop]
            if any(noise is not None and noise.kind == "laplace" for noise in known_noise):
                sums = zip(gaps.absolute(some), known_noise, strict=True)
                scores += [_laplace_log_likelihood(*row) for row in sums]
                continue
            squared, largest = gaps.sizes(some)
            rows = zip(squared, largest, known_noise, strict=True)
            scores += [_log_likelihood(*row) for row in rows]
        return beliefs(torch.stack(scores), views)


def _slots(views: Sequence[View], rests: Batch) -> torch.Tensor:
    """The place [U] of the sought record among all K·S of its unit."""
    records, slots = views[0].records, [view.knowledge.slot for view in views]
    if rests.count != records:
        raise InvalidInput(
            f"the rest holds {rests.count} records, but {records} are behind the observation; "
            f"give all of them in their places."
        )
    if not all(0 <= slot < records for slot in slots):
        raise InvalidInput(
            f"the sought record's slot must be one of 0 … {records - 1}, got {slots}."
        )
    return torch.tensor(slots)


def _adds_up(view: View, rests: Batch) -> bool:
    """Whether a record's share of an update is the same whatever is beside it."""
    training, size = view.local_training, view.local_training.unit_size
    seen = view.observation
    if training.algorithm != "fedsgd" or seen.clip is not None or seen.limit is not None:
        return False
    if training.by_record or size == 1:
        return True
    few = rests.units(0, 1).to(next(view.task.model.parameters())).expanded(1)
    return not view.task.couples_records(few.inputs[0, :size], few.labels[0, :size])


@dataclass(frozen=True, eq=False)
class _Gaps:
    """What candidates leave unexplained of the observations of a block of B units.

    rests: all K·S records of each unit; slots [B]. Only the update of the client whose record is
    sought changes with the candidate, so all the others' is computed once; `linear`: and only by
    the record's own share.
    """

    units: ViewTensors
    block: slice
    rests: Batch
    slots: torch.Tensor
    linear: bool

    def sizes(self, candidate_sets: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Squared and largest gap [B, N] of each candidate on the known coordinates, float64.

        The squares are up to a constant a unit, so that rounding stays small beside the noise.
        """
        squared, largest = [], []
        for start, added in self._explained_by(candidate_sets):
            cross = (added @ start.transpose(1, 2))[:, :, 0].double()
            norms = torch.linalg.vector_norm(added, dim=2).double()
            squared.append(norms.square() - 2 * cross)
            largest.append(added.sub_(start).abs_().amax(2).double())
        return torch.cat(squared, 1), torch.cat(largest, 1)

    def absolute(self, candidate_sets: Batch) -> torch.Tensor:
        """The sum of absolute gaps [B, N] of each candidate on the known coordinates, float64."""
        gaps = (added.sub_(start).abs_() for start, added in self._explained_by(candidate_sets))
        return torch.cat([gap.sum(2, dtype=torch.float64) for gap in gaps], 1)

    def _explained_by(self, candidate_sets: Batch) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """What is left without the record [B, 1, m], and what some candidates add [B, n, m]."""
        start, explained_by = self._linear() if self.linear else self._by_substitution()
        held = self.units.view.task.layout.size * len(self.slots)
        for first, end in blocks(candidate_sets.count, held_at_once(_HELD, start) // held):
            yield start, explained_by(candidate_sets.rows(first, end))

    def _linear(self) -> tuple[torch.Tensor, Callable[[Batch], torch.Tensor]]:
        """What is left without the record [B, 1, m], and what candidates add to the rest.

        By one gradient a candidate: G_j = G_0 + share · (g_j - g_0).
        """
        task, training = self.units.view.task, self.units.view.local_training
        path = [self.units.weights[self.block]]
        unit = torch.arange(len(self.slots), device=self.slots.device)
        kept = Batch(
            self.rests.inputs[unit, self.slots, None],
            self.rests.labels[unit, self.slots, None],
            False,
        )
        share = self._own_weights() * self._known() / training.unit_size
        start = self._observed() - self._known() * self._explained()
        start = start + share * contributions(task, path, kept, training)

        def added(candidates: Batch) -> torch.Tensor:
            return contributions(task, path, candidates, training).mul_(share)

        return start, added

    def _by_substitution(self) -> tuple[torch.Tensor, Callable[[Batch], torch.Tensor]]:
        """What is left without the record's client, and what it sends with each candidate."""
        size = self.units.view.local_training.unit_size
        unit = torch.arange(len(self.slots), device=self.slots.device)
        place = self.slots % size
        rows = (self.slots - place)[:, None] + torch.arange(size, device=place.device)
        inputs = self.rests.inputs[unit[:, None], rows][:, None]
        labels = self.rests.labels[unit[:, None], rows][:, None]
        others = self._explained() - self._sent(inputs, labels)
        start = self._observed() - self._known() * others

        def added(candidates: Batch) -> torch.Tensor:
            chosen = candidates.expanded(len(unit))
            tried = inputs.repeat(1, chosen.count, *[1] * (inputs.ndim - 2))
            named = labels.repeat(1, chosen.count, *[1] * (labels.ndim - 2))
            tried[unit, :, place] = chosen.inputs
            named[unit, :, place] = chosen.labels
            return self._known() * self._sent(tried, named)

        return start, added

    def _observed(self) -> torch.Tensor:
        return self.units.update[self.block, None]

    def _known(self) -> torch.Tensor:
        return self.units.known[self.block, None]

    def _own_weights(self) -> torch.Tensor:
        """The weight of the client whose record is sought, [B, 1, 1] or [B, 1, m]."""
        weights = self.units.client_weights[self.block]
        unit = torch.arange(len(weights), device=weights.device)
        own = weights[unit, self.slots // self.units.view.local_training.unit_size]
        return own.reshape(len(weights), 1, -1)

    def _explained(self) -> torch.Tensor:
        """What all clients send with the first candidate in the record's place [B, 1, m]."""
        view, block = self.units.view, self.block
        seen = view.observation

        def explain(
            weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, shares: torch.Tensor
        ) -> torch.Tensor:
            return explained_update(
                view.task, weights, x, y, view.local_training, shares, seen.clip, seen.limit
            )

        explained: torch.Tensor = view.task.way.vmap(explain)(
            self.units.weights[block],
            self.rests.inputs,
            self.rests.labels,
            self.units.client_weights[block],
        )
        return explained[:, None]

    def _sent(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What the one client sends [B, n, m] for n versions of its records [B, n, S, ...]."""
        view, seen = self.units.view, self.units.view.observation
        one = self.units.client_weights.new_ones(1)

        def send(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return explained_update(
                view.task, weights, x, y, view.local_training, one, seen.clip, seen.limit
            )

        way = view.task.way
        sent: torch.Tensor = way.vmap(way.vmap(send, (None, 0, 0)))(
            self.units.weights[self.block], inputs, labels
        )
        return self._own_weights() * sent


def _log_likelihood(
    squared: torch.Tensor, largest: torch.Tensor, noise: Noise | None
) -> torch.Tensor:
    """log p(G | candidate) [N] up to a constant, from its squared and largest gap [N]."""
    if bool(torch.isnan(squared).any()):
        return torch.full_like(squared, torch.nan)
    if noise is None or noise.scale == 0:
        # the limit s -> 0: all mass on the nearest
        return _even(squared == squared.min())
    if noise.kind == "gaussian":
        return -squared / (2 * noise.scale**2)
    within = largest <= noise.scale * (1 + 1e-6)
    nearest = largest == largest.min()  # rounding may leave no candidate within
    return _even(within if bool(within.any()) else nearest)


def _laplace_log_likelihood(absolute: torch.Tensor, noise: Noise | None) -> torch.Tensor:
    """The same under Laplace noise, from the sum of its absolute gaps [N]."""
    if bool(torch.isnan(absolute).any()):
        return torch.full_like(absolute, torch.nan)
    if noise is None or noise.scale == 0:
        return _even(absolute == absolute.min())
    return -absolute / noise.scale


def _even(possible: torch.Tensor) -> torch.Tensor:
    """Log weights 0 for what is possible, -∞ for the rest."""
    return torch.zeros(possible.shape, dtype=torch.float64, device=possible.device).masked_fill(
        ~possible, -torch.inf
    )
