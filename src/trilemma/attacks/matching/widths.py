"""Few widths for many: functions are recorded for each number of units that they are called with.

A recording takes as long as hundreds of replays of a small model, and units come and go, so that
every number of them would be called for.
"""

from __future__ import annotations

import torch

__all__ = ["filled", "widened"]


def widened(chosen: torch.Tensor) -> torch.Tensor:
    """Units [A] and the first of them again, up to the next width: 1, 2, 3, 4, 6, 8, 12, 16 ...

    >>> widened(torch.tensor([7, 5, 3, 1, 2])).tolist()
    [7, 5, 3, 1, 2, 7]
    """
    count, width = len(chosen), 1
    while width < count:
        half = 3 * width // 2
        width = half if count <= half else 2 * width
    return torch.cat((chosen, chosen[:1].expand(width - count)))


def filled(rows: torch.Tensor, width: int) -> torch.Tensor:
    """Rows [A, ...] with zeros behind them, [width, ...]."""
    if len(rows) == width:
        return rows
    return torch.cat((rows, rows.new_zeros(width - len(rows), *rows.shape[1:])))
