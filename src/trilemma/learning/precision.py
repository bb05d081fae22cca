"""How exactly a GPU computes, and what is drawn there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

__all__ = ["LARGE", "drawn_on", "whole_floats"]

LARGE: Final = 10**6  # parameters


@contextmanager
def whole_floats(parameters: int) -> Iterator[None]:
    """Convolutions in all 24 bits of a float: of 11, as a GPU does by default, attacks read less.

    Models of more than 10⁶ parameters keep the 11 bits: searches there end far from where the
    rest would matter (ResNet-18, 16 unprotected updates: Inverting Gradients guessed right in 3
    and in 7 of them with 11 bits and in 1 with 24, DLG in none), and take half the time.
    """
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = before and parameters > LARGE
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def drawn_on(device: torch.device | str, numbers: int) -> torch.device:
    """Where random numbers for a device are drawn: on the CPU, so that they do not depend on it.

    More than 10⁶ are drawn where they are needed, in other numbers of the same distribution: a
    core takes 0.05 s for 11 million, of each client in each round.
    """
    return torch.device(device) if numbers > LARGE else torch.device("cpu")
