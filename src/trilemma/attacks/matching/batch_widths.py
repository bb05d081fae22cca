"""Few widths for many: functions are recorded for each number of units that they are called with.

A recording takes as long as tens of replays of a small model, and units come and go, so that
every number of them would be called for.
"""

from __future__ import annotations

import torch

__all__ = ["filled", "widened"]


def widened(chosen: torch.Tensor) -> torch.Tensor:
    """Units [A], filled up with the first to the next width: 1 ... 8, 10, 12, 14, 16, 20 ...

    >>> widened(torch.arange(9)).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    """
    count = len(chosen)
    step = max(1, 2 ** ((count - 1).bit_length() - 3))
    width = -(-count // step) * step
    return torch.cat((chosen, chosen[:1].expand(width - count)))


def filled(rows: torch.Tensor, width: int) -> torch.Tensor:
    """Rows [A, ...] with zeros behind them, [width, ...]."""
    if len(rows) == width:
        return rows
    return torch.cat((rows, rows.new_zeros(width - len(rows), *rows.shape[1:])))
