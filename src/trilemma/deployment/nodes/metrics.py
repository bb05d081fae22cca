"""The metrics that the terms name, as numbers that a transport can carry and sum."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Final

import torch

from trilemma.protection.transports.base import Transport

__all__ = ["decode_metrics", "encode_metrics"]

_LOG: Final = logging.getLogger("trilemma.nodes")


def encode_metrics(
    record: Mapping[str, object], names: tuple[str, ...], reach: float, transport: Transport
) -> torch.Tensor:
    """Each metric as two numbers [2k] on the transport's grid: a coarse part, and what is left.

    One number of 16 bits would round a loss in ±100 to 0.003; two are exact to 1e-7 of `reach`.
    What lies beyond ±`reach` counts as its edge, and what is no number as 0: a refusal would tell
    of the records behind it.
    """
    clip, step = _grid(transport)
    made: list[float] = []
    for name in names:
        value = record.get(name)
        if not isinstance(value, int | float) or value != value:
            _LOG.warning("metric %r must be a number, and counts as 0: got %r", name, value)
            value = 0.0
        elif abs(value) > reach:
            _LOG.warning("metric %r counts as the edge of metric_range=%g", name, reach)
        scaled = max(-reach, min(reach, value)) / reach * clip
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
