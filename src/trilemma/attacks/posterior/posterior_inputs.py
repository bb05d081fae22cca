"""The units of one call as the posterior attacks read them: tensors, candidates and beliefs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks.base import Reconstructions, View
from trilemma.attacks.matching import ViewTensors
from trilemma.errors import InvalidInput
from trilemma.records.records import Records

if TYPE_CHECKING:
    from trilemma.attacks.base import KnowledgeLevel

__all__ = ["Batch", "beliefs", "blocks", "flat_weights", "held_at_once", "stacked", "units_of"]

_OF_MEMORY: Final = 8  # updates take so small a part of a GPU's; what makes them takes the rest


@dataclass(frozen=True, eq=False)
class Batch:
    """Records of U units: inputs [U, n, *shape], or [n, *shape] where all units share them."""

    inputs: torch.Tensor
    labels: torch.Tensor
    shared: bool

    @property
    def count(self) -> int:
        """n, the records of one unit."""
        return self.inputs.shape[0 if self.shared else 1]

    def rows(self, start: int, stop: int) -> Batch:
        """Records start .. stop - 1 of every unit."""
        if self.shared:
            return Batch(self.inputs[start:stop], self.labels[start:stop], True)
        return Batch(self.inputs[:, start:stop], self.labels[:, start:stop], False)

    def units(self, start: int, stop: int) -> Batch:
        """All records of units start .. stop - 1."""
        if self.shared:
            return self
        return Batch(self.inputs[start:stop], self.labels[start:stop], False)

    def expanded(self, units: int) -> Batch:
        """The records with a row for each of the units, shared or not."""
        if not self.shared:
            return self
        return Batch(
            self.inputs.expand(units, *self.inputs.shape),
            self.labels.expand(units, *self.labels.shape),
            False,
        )

    def to(self, like: torch.Tensor) -> Batch:
        """On the device of `like` and in its precision, whole numbers as they are."""
        return Batch(_as(self.inputs, like), _as(self.labels, like), self.shared)


def _as(numbers: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return numbers.to(like if numbers.is_floating_point() else like.device)


def units_of(views: Sequence[View], *, at_limit: bool = False) -> ViewTensors:
    """The views as tensors; in double precision only where the weights are double already."""
    double = views[0].weights.dtype == torch.float64 if views else False
    return ViewTensors.of(views, "double" if double else "single", at_limit=at_limit)


def stacked(owned: Sequence[Records | None], what: str, knows: KnowledgeLevel) -> Batch:
    """One batch of what each unit's attacker owns; `what` names it where it is missing."""
    found = [item for item in owned if item is not None and len(item) > 0]
    if len(found) < len(owned):
        raise InvalidInput(
            f"an attacker on the knowledge {knows!r} needs {what}, but a view has none; put it in "
            f"the view's knowledge."
        )
    if all(item is found[0] for item in found):
        return Batch(found[0].inputs, found[0].labels, True)
    if len({item.inputs.shape for item in found}) > 1:
        raise InvalidInput(
            f"the views of one call must own {what} of one size; attack the others in a call of "
            f"their own."
        )
    return Batch(
        torch.stack([item.inputs for item in found]),
        torch.stack([item.labels for item in found]),
        False,
    )


def blocks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Ends (start, stop) of consecutive blocks of at most `size`, at least one each.

    >>> list(blocks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    size = max(1, size)
    for start in range(0, count, size):
        yield start, min(start + size, count)


def held_at_once(numbers: int, like: torch.Tensor) -> int:
    """So many numbers, which suit a CPU's cache, or what a GPU has the memory for."""
    if like.device.type != "cuda":
        return numbers
    memory = torch.cuda.get_device_properties(like.device).total_memory
    return max(numbers, memory // (_OF_MEMORY * like.element_size()))


def flat_weights(weights: torch.Tensor, known: torch.Tensor) -> torch.Tensor | None:
    """The clients' weights [B, K] where they are the same on all known coordinates, else None."""
    if weights.ndim == 2:
        return weights
    read = known[:, None].bool()
    high = torch.where(read, weights, -torch.inf).amax(2)
    low = torch.where(read, weights, torch.inf).amin(2)
    return high if bool((high == low).all()) else None


def beliefs(scores: torch.Tensor, views: Sequence[View]) -> Reconstructions:
    """Log posteriors [U, C] under a uniform prior from log likelihoods [U, C].

    A unit whose likelihoods are not numbers has failed and believes every candidate alike.
    """
    failed = torch.isnan(scores).any(1)
    scores = torch.where(failed[:, None], 0.0, scores)
    log_probability = torch.log_softmax(scores, 1)
    guesses = log_probability.argmax(1).tolist()
    spec = views[0].input_spec
    candidate_sets = [view.knowledge.candidate_set for view in views]
    chosen = [
        item[torch.tensor([guess])]
        for item, guess in zip(candidate_sets, guesses, strict=True)
        if item is not None
    ]
    like = views[0].observation.update
    return Reconstructions(
        _as(torch.stack([item.inputs for item in chosen]), like).clamp(spec.low, spec.high),
        torch.stack([item.labels for item in chosen]).to(like.device),
        -log_probability.amax(1).to(like),
        failed,
        log_probability,
    )
