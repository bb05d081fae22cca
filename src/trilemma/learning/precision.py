"""How exactly a GPU computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["whole_floats"]


@contextmanager
def whole_floats() -> Iterator[None]:
    """Convolutions in all 24 bits of a float: of 11, as a GPU does by default, attacks read less.

    May be entered more than once.
    """
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before
