"""The views of one call as tensors: what every attack computes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import torch

from trilemma.attacks.base import View, common_view

if TYPE_CHECKING:
    from trilemma.observations import Observation

__all__ = ["Precision", "ViewTensors"]

Precision = Literal["single", "double"]
_CPU, _GPU = 16 * 10**6, 8 * 10**8  # parameters times records that one evaluation should hold
_WIDER = 16  # times as many units at once on a GPU, while each is small
_PAIRS = 60  # of L-BFGS's memory, at most
_EDGE: Final = 1e-5  # of a limit: what rounding leaves of a value that was clipped to it


@dataclass(frozen=True, eq=False)
class ViewTensors:
    """The views of one call as tensors, in the working precision.

    weights [U, m]; update [U, m] and known [U, m], both zero where a coordinate was not read;
    client_weights [U, K], or [U, K, m] where clients sent coordinates of their own; noise [U], the
    standard deviation on each known coordinate. What is drawn for a unit goes by its number: of
    its training and round, or its place where it is of no training.
    """

    view: View
    weights: torch.Tensor
    update: torch.Tensor
    known: torch.Tensor
    client_weights: torch.Tensor
    noise: torch.Tensor
    numbers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, views: Sequence[View], precision: Precision, *, at_limit: bool = False
    ) -> ViewTensors:
        """The views as tensors.

        A coordinate that was clipped to its limit counts as not read, unless `at_limit`.
        """
        view = common_view(views)
        dtype = torch.float64 if precision == "double" else torch.float32
        observations = [v.observation for v in views]
        known = torch.stack([_read(o, at_limit=at_limit) for o in observations])
        update = torch.stack([o.update for o in observations]).to(dtype)
        return cls(
            view,
            torch.stack([v.weights for v in views]).to(dtype),
            torch.where(known, update, 0.0),
            known.to(dtype),
            torch.stack(_client_weights(observations, update)),
            update.new_tensor([_deviation(v) for v in views]),
            _numbers(views),
        )

    def __len__(self) -> int:
        return self.weights.shape[0]

    def at_once(self, slots: int) -> int:
        """How many of at most `slots` to evaluate together: wide is no faster for large models.

        On a CPU 16 units of 10⁶ parameters take 2.7 times as long each as 4; on a GPU a sum of
        40 records of ResNet-18 takes as long alone as among 8, and an eighth of the memory. Small
        ones fill a GPU by the hundred, up to half of the memory that is free there.
        """
        work = self.weights.shape[1] * self.view.records
        if not self.weights.is_cuda:
            return max(1, min(slots, _CPU // work))
        free, _ = torch.cuda.mem_get_info(self.weights.device)
        numbers = 2 * _PAIRS * self.view.records * self.view.input_spec.size
        numbers += 11 * self.weights.shape[1]
        room = free // (2 * numbers * self.weights.element_size())
        return max(1, min(_WIDER * slots, _GPU // work, room))

    @property
    def masked(self) -> bool:
        """Whether coordinates are missing."""
        return not bool(self.known.all())

    def variances(
        self, levels: Sequence[tuple[float, int]]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """The variance [U] of the noise, from level to level, and what is spent at each.

        Levels are relative to the mean square of the observed coordinates. A unit's variance
        `falls` [U] unless it was that of its noise before.
        """
        last = torch.full_like(self.noise, torch.inf)
        for level, spent in levels:
            variance = self.variance(level)
            falls = variance != last
            if bool(falls.any()):
                yield variance, falls, spent
            last = variance

    def variance(self, level: float) -> torch.Tensor:
        """That of the noise [U], at least `level` of the mean square of what was observed."""
        return torch.maximum(self.noise**2, level * self.energy / self.known.sum(1).clamp(min=1))

    @property
    def energy(self) -> torch.Tensor:
        """Squared norm [U] of what was observed, never zero."""
        return (self.update**2).sum(1).clamp(min=torch.finfo(self.update.dtype).tiny)


def _numbers(views: Sequence[View]) -> tuple[tuple[int, ...], ...]:
    """Of each unit its own: that of its training and round, the second of the same has one more.

    >>> from types import SimpleNamespace as V
    >>> _numbers([V(training=3, round=1), V(training=3, round=1), V(training=None, round=0)])
    ((3, 1), (3, 1, 1), (2,))
    """
    seen: Counter[tuple[int, ...]] = Counter()
    made: list[tuple[int, ...]] = []
    for place, view in enumerate(views):
        number = (place,) if view.training is None else (view.training, view.round)
        made.append((*number, seen[number]) if seen[number] else number)
        seen[number] += 1
    return tuple(made)


def _client_weights(observations: Sequence[Observation], like: torch.Tensor) -> list[torch.Tensor]:
    """Each unit's [K], or [K, m] for all where one unit has a row for each client."""
    given = [
        observation.weights or (1.0 / observation.clients,) * observation.clients
        for observation in observations
        if not isinstance(observation.weights, torch.Tensor)
    ]
    own = iter(like.new_tensor(given))  # all at once: each would be brought to a GPU by itself
    made = [
        observation.weights.to(like)
        if isinstance(observation.weights, torch.Tensor)
        else next(own)
        for observation in observations
    ]
    if any(item.ndim == 2 for item in made):
        made = [w if w.ndim == 2 else w[:, None].expand(-1, like.shape[1]) for w in made]
    return made


def _read(observation: Observation, *, at_limit: bool) -> torch.Tensor:
    """Which coordinates [m] are read: where values are clipped, those that tell more than a sign.

    Unless noise hides which were clipped, or all were.
    """
    update, known = observation.update, observation.known
    known = torch.ones_like(update, dtype=torch.bool) if known is None else known
    if at_limit or observation.limit is None or observation.noise is not None:
        return known
    within = known & (update.abs() < observation.limit * (1 - _EDGE))
    return within if bool(within.any()) else known


def _deviation(view: View) -> float:
    noise = view.observation.noise
    return 0.0 if noise is None else noise.deviation
