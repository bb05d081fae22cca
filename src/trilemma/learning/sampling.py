"""Which of a client's records an update is made of, as a pure function of a generator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch.nn.functional import pad

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.learning.local_training import LocalTraining

__all__ = ["draw_rows", "stack_rows"]

# How often Poisson sampling may draw more rows than the usual width. It then gets a wider array:
# one shape for nearly all draws keeps traces and stacks alike, and no record is ever dropped.
_WIDER: Final = 1e-9


def draw_rows(
    local_training: LocalTraining, n: int, generator: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The rows [B] of a client's n records that its update is made of, and who takes part when.

    Fixed sampling: `unit_size` different rows in random order, and None. Full: all rows, or
    the first `records`, and as many ones, whatever `unit_size` is. Poisson sampling: the
    rows drawn in any step, padded with row 0 to a width B that fewer than one draw in 10⁹ exceeds
    (that one is wider), and present [B], or [steps, B] for several steps: 1 where the row takes
    part, 0 where it does not or is padding. Padding comes last.

    >>> from trilemma.learning.local_training import LocalTraining
    >>> poisson = LocalTraining(batch=2, sampling="poisson")
    >>> rows, present = draw_rows(poisson, 5, np.random.default_rng(0))
    >>> rows.tolist(), present.tolist()
    ([1, 2, 3, 0, 0], [1.0, 1.0, 1.0, 0.0, 0.0])
    """
    if local_training.sampling == "full":
        count = min(n, local_training.records or n)
        return torch.arange(count), torch.ones(count)
    if n < local_training.unit_size:
        raise InvalidInput(
            f"a client with {n} records cannot give {local_training.unit_size} to an update; use "
            f"a smaller batch."
        )
    if local_training.sampling == "fixed":
        return torch.from_numpy(generator.choice(n, local_training.unit_size, replace=False)), None
    share = local_training.batch / n
    drawn = generator.random((local_training.steps, n)) < share
    own = np.flatnonzero(drawn.any(axis=0))
    width = max(_width(n, 1 - (1 - share) ** local_training.steps), own.size)
    rows = np.zeros(width, dtype=np.int64)
    rows[: own.size] = own
    present = np.zeros((local_training.steps, width), dtype=np.float32)
    present[:, : own.size] = drawn[:, own]
    return torch.from_numpy(rows), torch.from_numpy(
        present[0] if local_training.steps == 1 else present
    )


def stack_rows(
    drawn: Sequence[tuple[torch.Tensor, torch.Tensor | None]],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Several draws of one local training as rows [K, B] and present [K, ...], or None.

    B is as small as the draw with the most rows allows, at least 1. No mask where all count.
    """
    masks = [mask for _, mask in drawn if mask is not None]
    if len({len(rows) for rows, _ in drawn}) == 1 and all(bool(mask.all()) for mask in masks):
        return torch.stack([rows for rows, _ in drawn]), None
    width = max(1, *(int((mask > 0).reshape(-1, mask.shape[-1]).any(0).sum()) for mask in masks))
    # A negative number of columns to add cuts as many off.
    rows = [pad(rows, (0, width - len(rows)), value=int(rows[0])) for rows, _ in drawn]
    return torch.stack(rows), torch.stack([pad(m, (0, width - m.shape[-1])) for m in masks])


@lru_cache(maxsize=1024)
def _width(n: int, share: float) -> int:
    """The least B with P(Bin(n, share) > B) <= `_WIDER`, at least 1."""
    from scipy.special import bdtrc  # heavy: workers start without it, and few need it

    width = max(1, int(n * share))
    while bdtrc(width, n, share) > _WIDER:
        width += 1
    return width
