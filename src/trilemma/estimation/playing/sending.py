"""What the clients of many games send in a round before protection: each client's, or the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch.func import grad, vmap

from trilemma.learning import client_update, traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.estimation.playing.games import Arena, Batches

__all__ = ["mean_updates", "sent_updates"]

_SMALL: Final = 100_000  # parameters: of a larger model the work counts, not its bookkeeping


def sent_updates(
    arena: Arena, weights: torch.Tensor, made: Sequence[Batches], *, often: bool = False
) -> torch.Tensor:
    """What every client of every game sends at weights [U, m], [U, K, m].

    Asked for `often`, a small model's is worth recording.
    """
    task, training = arena.scenario.task, arena.scenario.local_training
    inputs, labels, present = _records(arena, made)
    if bool(present.all()) and training.sampling == "fixed":

        def send(w: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return client_update(task, w, x, y, training)

        everyone = vmap(vmap(send, in_dims=(None, 0, 0)))
        example = (weights, inputs, labels)
        if often and task.layout.size <= _SMALL:
            everyone = traced(("updates", training), task, everyone, example)
        return everyone(*example)

    def part(
        w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, there: torch.Tensor
    ) -> torch.Tensor:
        return client_update(task, w, x, y, training, present=there)

    return vmap(vmap(part, in_dims=(None, 0, 0, 0)))(weights, inputs, labels, present)


def mean_updates(
    arena: Arena, weights: torch.Tensor, made: Sequence[Batches], shares: torch.Tensor
) -> torch.Tensor | None:
    """Σ_k share_k · update_k [U, m] of each game, shares [U, K], as one gradient; else None.

    The gradient of the clients' weighted losses takes no client's gradient by itself, but must be
    all that the clients compute.
    """
    task, training = arena.scenario.task, arena.scenario.local_training
    inputs, labels, present = _records(arena, made)
    if training.algorithm != "fedsgd" or training.by_record or not bool(present.all()):
        return None

    def total(
        w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor
    ) -> torch.Tensor:
        return (share * vmap(task.mean_loss, (None, 0, 0))(w, x, y)).sum()

    def means(
        w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor
    ) -> torch.Tensor:
        found: torch.Tensor = vmap(grad(total))(w, x, y, share)
        return found

    example = (weights, inputs, labels, shares)
    if task.layout.size > _SMALL:
        return means(*example)
    return traced(("means", training), task, means, example)(*example)


def _records(
    arena: Arena, made: Sequence[Batches]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs [U, K, B, ...] and labels [U, K, B] of the batches, and which of them are there."""
    device, width = arena.scenario.device, max(each.rows.shape[1] for each in made)
    rows = torch.from_numpy(np.stack([_padded(each.rows, width) for each in made]))
    present = torch.from_numpy(np.stack([_padded(each.present, width) for each in made]))
    pool = arena.pool_there
    rows = rows.to(device)
    return pool.inputs[rows], pool.labels[rows], present.to(device)


def _padded(rows: NDArray[np.generic], width: int) -> NDArray[np.generic]:
    """Rows [K, B] with zeros added up to `width`."""
    short = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, short))) if short else rows
