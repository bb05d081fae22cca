"""The metrics that the terms name, as numbers that a transport can carry and sum."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from trilemma.errors import InvalidInput, RangeExceeded
from trilemma.protections.transports.base import Transport

__all__ = ["decode_metrics", "encode_metrics"]


def encode_metrics(
    record: Mapping[str, object], names: tuple[str, ...], reach: float, transport: Transport
) -> torch.Tensor:
    """Each metric as two numbers [2k] on the transport's grid: a coarse part, and what is left.

    One number of 16 bits would round a loss in ±100 to 0.003; two are exact to 1e-7 of `reach`.
    """
    clip, step = _grid(transport)
    made: list[float] = []
    for name in names:
        value = record.get(name)
        if not isinstance(value, int | float) or math.isnan(value):
            raise InvalidInput(
                f"metric {name!r} must be a number, got {value!r}; report it from every client."
            )
        if abs(value) > reach:
            raise RangeExceeded(
                f"metric {name!r} lies beyond metric_range={reach:g}; raise that for all."
            )
        scaled = value / reach * clip
        coarse = max(-clip, min(clip, round(scaled / step) * step))
        made += [coarse, (scaled - coarse) / step * clip]
    return torch.tensor(made, dtype=torch.float64)


def decode_metrics(
    mean: torch.Tensor, names: tuple[str, ...], reach: float, transport: Transport
) -> dict[str, float]:
    """The mean of each metric over the clients."""
    clip, step = _grid(transport)
    coarse, fine = mean[0::2].tolist(), mean[1::2].tolist()
    return {
        name: (big + small * step / clip) / clip * reach
        for name, big, small in zip(names, coarse, fine, strict=True)
    }


def _grid(transport: Transport) -> tuple[float, float]:
    """The largest value and the step of the transport's grid, or of one for plain numbers."""
    fixed = transport.fixed
    return (1.0, math.ldexp(1.0, -15)) if fixed is None else (fixed.clip, fixed.step)
