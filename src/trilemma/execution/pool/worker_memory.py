"""What of memory is given back to the system: not that of tensors."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

__all__ = ["keep_memory"]

_TRIM, _MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h
_KEPT: Final = 2**28  # bytes that are free and not given back
_LARGEST: Final = 2**25  # bytes of one tensor; glibc takes no more


def keep_memory() -> None:
    """Have this process keep free memory from here on, 256 MB at the end of what it holds.

    glibc gives memory of some megabytes back to the system as soon as it is free, which fills it
    with zeros when the next tensor is written: a third of the time of some products of matrices,
    and 50,000 page faults in a second of attacks, of which a tenth is left.
    """
    if sys.platform != "linux":
        return
    with suppress(AttributeError):  # another C library
        set_option = ctypes.CDLL(None).mallopt
        set_option(_TRIM, _KEPT)
        set_option(_MAP, _LARGEST)
