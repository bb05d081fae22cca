"""Seconds of work done, whatever else shares the machine; and how people say them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["spoken", "spoken_range", "work_seconds"]


def work_seconds(device: torch.device) -> float:
    """CPU seconds of this process so far; on a GPU wall seconds, once it has done all its work."""
    if device.type != "cuda":
        return time.process_time()
    import torch  # heavy, and already there where a device is

    torch.cuda.synchronize(device)
    return time.perf_counter()


def spoken(seconds: float) -> str:
    """A time to two digits or so, in the unit that people would use.

    >>> [spoken(seconds) for seconds in (0.4, 42.3, 95.0, 600.0, 5000.0, 90000.0)]
    ['0 s', '42 s', '1.6 min', '10 min', '83 min', '25 h']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    value, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.1f} {unit}"


def spoken_range(least: float, most: float) -> str:
    """A time between two ends, the unit once where both have it.

    >>> [spoken_range(*ends) for ends in ((120, 360), (20, 100), (42, 42.3), (0.2, 9))]
    ['2.0 to 6.0 min', '20 s to 1.7 min', 'about 42 s', 'at most 9 s']
    """
    low, high = spoken(least), spoken(most)
    if low == high:
        return f"about {low}"
    if least < 0.5:
        return f"at most {high}"
    (number, unit), same = low.split(), high.split()[1]
    return f"{number if unit == same else low} to {high}"
