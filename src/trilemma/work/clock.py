"""Seconds of work done, whatever else shares the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["work_seconds"]


def work_seconds(device: torch.device) -> float:
    """CPU seconds of this process so far; on a GPU wall seconds, once it has done all its work."""
    if device.type != "cuda":
        return time.process_time()
    import torch  # heavy, and already there where a device is

    torch.cuda.synchronize(device)
    return time.perf_counter()
