"""What the clients of many games send in a round before protection: each client's, or the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import torch

from trilemma.learning import client_update, traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.estimation.playing.games import Arena, Batches

__all__ = ["Sending"]

_SMALL: Final = 100_000  # parameters: of a larger model the work counts, not its bookkeeping
_Function = Callable[..., torch.Tensor]


@dataclass(frozen=True, eq=False)
class Sending:
    """What clients compute at the same model in every round that is asked for.

    Asked `often`, a small model's is worth recording. Recordings are kept here by their shapes
    alone: to look a model through for what may have changed takes a tenth of a round's time.
    """

    arena: Arena
    often: bool = False
    _recorded: dict[tuple[str, torch.Size], _Function] = field(default_factory=dict)

    def updates(self, weights: torch.Tensor, made: Sequence[Batches]) -> torch.Tensor:
        """What every client of every game sends at weights [U, m], [U, K, m]."""
        task, training = self.arena.scenario.task, self.arena.scenario.local_training
        inputs, labels = self._records(made)
        if training.sampling == "fixed" and _whole(made):

            def send(w: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return client_update(task, w, x, y, training)

            everyone = task.way.vmap(task.way.vmap(send, in_dims=(None, 0, 0)))
            return self._run("updates", everyone, weights, inputs, labels)

        def part(
            w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, there: torch.Tensor
        ) -> torch.Tensor:
            return client_update(task, w, x, y, training, present=there)

        present = _stacked([each.present for each in made]).to(weights.device)
        everyone = task.way.vmap(task.way.vmap(part, in_dims=(None, 0, 0, 0)))
        updates: torch.Tensor = everyone(weights, inputs, labels, present)
        return updates

    def means(
        self, weights: torch.Tensor, made: Sequence[Batches], shares: torch.Tensor
    ) -> torch.Tensor | None:
        """Σ_k share_k · update_k [U, m] of each game, shares [U, K], as one gradient; else None.

        The gradient of the clients' weighted losses takes no client's gradient by itself, but
        must be all that the clients compute.
        """
        task, training = self.arena.scenario.task, self.arena.scenario.local_training
        if training.algorithm != "fedsgd" or training.by_record or not _whole(made):
            return None

        def mean(
            w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor
        ) -> torch.Tensor:
            def loss(at: torch.Tensor) -> torch.Tensor:
                each: torch.Tensor = task.way.vmap(task.mean_loss, (None, 0, 0))(at, x, y)
                return (share * each).sum()

            return cast("torch.Tensor", task.way.grad(loss)(w))

        return self._run("means", task.way.vmap(mean), weights, *self._records(made), shares)

    def _run(self, name: str, function: _Function, *given: torch.Tensor) -> torch.Tensor:
        """The function of what is given, recorded where that pays."""
        task = self.arena.scenario.task
        if not self.often or task.layout.size > _SMALL:
            return function(*given)
        key = name, given[1].shape  # of the inputs, by which all other shapes go
        if key not in self._recorded:
            training = self.arena.scenario.local_training
            self._recorded[key] = traced((name, training), task, function, given)
        return self._recorded[key](*given)

    def _records(self, made: Sequence[Batches]) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs [U, K, B, ...] and labels [U, K, B] of the batches."""
        pool = self.arena.pool_there
        rows = _stacked([each.rows for each in made]).to(pool.inputs.device)
        inputs, labels = (  # a quarter of the time of pool[rows]
            each.index_select(0, rows.flatten()).view(*rows.shape, *each.shape[1:])
            for each in (pool.inputs, pool.labels)
        )
        return inputs, labels


def _whole(made: Sequence[Batches]) -> bool:
    """Whether no row of any batch only pads, nor would beside the others."""
    width = made[0].rows.shape[1]
    return all(each.whole and each.rows.shape[1] == width for each in made)


def _stacked(tables: Sequence[NDArray[np.generic]]) -> torch.Tensor:
    """Tables [K, B] one beside the other [U, K, B], with zeros added up to the widest."""
    width = max(each.shape[1] for each in tables)
    return torch.from_numpy(np.array([_padded(each, width) for each in tables]))


def _padded(rows: NDArray[np.generic], width: int) -> NDArray[np.generic]:
    """Rows [K, B] with zeros added up to `width`."""
    short = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, short))) if short else rows
