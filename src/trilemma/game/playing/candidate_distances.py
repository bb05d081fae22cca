"""How far reconstructions lie from the candidates of their games, those of many games at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from trilemma.beliefs.candidate_set import (
    commonness,
    distances,
    far,
    mean_squared,
    mean_squares,
    sampled,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.game.playing.games import Arena

__all__ = ["tables_of"]

_HERE: Final = 1 << 19  # numbers of candidates at once: their doubles stay in a CPU's cache
_THERE: Final = 1 << 27  # on a GPU, which is asked as seldom as its memory allows


def tables_of(
    arena: Arena,
    made: torch.Tensor,
    candidate_sets: Sequence[NDArray[np.int64]],
    public: torch.Tensor | None,
) -> list[torch.Tensor]:
    """Distances [R, N] on the host of reconstructions [n, R, *shape] from N candidates each.

    Several reconstructions compete by how far each is from public records (None: from the
    candidates), the distances being in units of that.
    """
    tables = _plain(arena, made, candidate_sets)
    if made.shape[1] == 1:
        return tables
    if public is None:
        shares = [table / commonness(sampled(table.mT).mT)[:, None] for table in tables]
    else:
        others, measure = sampled(public), arena.scenario.measure
        shares = [
            table / commonness(distances(item, others, measure))[:, None]
            for table, item in zip(tables, made.cpu(), strict=True)
        ]
    return [far(table) for table in shares]


def _plain(
    arena: Arena, made: torch.Tensor, candidate_sets: Sequence[NDArray[np.int64]]
) -> list[torch.Tensor]:
    """The distances [R, N] themselves."""
    measure, pool = arena.scenario.measure, arena.pool.inputs
    if measure is mean_squared and len({len(item) for item in candidate_sets}) == 1:
        return [
            table for tables in _squares(arena, made, candidate_sets) for table in tables.cpu()
        ]
    return [
        distances(item, pool[torch.from_numpy(candidate_set)], measure)
        for item, candidate_set in zip(made.cpu(), candidate_sets, strict=True)
    ]


def _squares(
    arena: Arena, made: torch.Tensor, candidate_sets: Sequence[NDArray[np.int64]]
) -> Iterator[torch.Tensor]:
    """Tables [n, R, N] of mean squares, as many at once as there is room for."""
    pool = (arena.pool_there if made.is_cuda else arena.pool).inputs
    many = max(
        1, (_THERE if made.is_cuda else _HERE) // (len(candidate_sets[0]) * pool[0].numel())
    )
    for start in range(0, len(candidate_sets), many):
        rows = torch.from_numpy(np.stack(candidate_sets[start : start + many])).to(pool.device)
        candidates = pool.index_select(0, rows.flatten()).view(*rows.shape, -1)
        yield far(mean_squares(made[start : start + many].flatten(2), candidates))
