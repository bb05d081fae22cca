"""How exactly a GPU computes, and what is drawn there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

__all__ = ["LARGE", "drawn_on", "short_products", "whole_floats"]

LARGE: Final = 10**6  # parameters


@contextmanager
def whole_floats(parameters: int = 0) -> Iterator[None]:
    """Convolutions and products in all 24 bits of a float: of 11, attacks read less.

    Models of more than 10⁶ parameters keep the 11 bits of a GPU's convolutions: searches there end
    far from where the rest would matter (ResNet-18, 16 unprotected updates: Inverting Gradients
    guessed right in 3 and in 7 of them with 11 bits and in 1 with 24, DLG in none), and take half
    the time.
    """
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    short = convolutions.allow_tf32 and parameters > LARGE
    with _set(convolutions, short), _set(products, False):
        yield


@contextmanager
def short_products() -> Iterator[None]:
    """Matrix products on a GPU in 11 bits of a float: for accuracies, not for attacks or checks.

    What is lost is a thousandth of each product; seeds differ by more. A CPU computes as before.
    """
    with _set(torch.backends.cuda.matmul, True):
        yield


@contextmanager
def _set(library: Any, short: bool) -> Iterator[None]:
    before = library.allow_tf32
    library.allow_tf32 = short
    try:
        yield
    finally:
        library.allow_tf32 = before


def drawn_on(device: torch.device | str, numbers: int) -> torch.device:
    """Where random numbers for a device are drawn: on the CPU, so that they do not depend on it.

    More than 10⁶ are drawn where they are needed, in other numbers of the same distribution: a
    core takes 0.05 s for 11 million, of each client in each round.
    """
    return torch.device(device) if numbers > LARGE else torch.device("cpu")
