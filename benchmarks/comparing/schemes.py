"""A scheme that adds up protected updates, and what a parameter costs in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from benchmarks.pages.tables import seconds
from trilemma.crypto.packing import FixedPoint

__all__ = ["FIXED", "Scheme", "Vector", "costs", "factor", "updates"]

FIXED = FixedPoint(clip=1.0, bits=16, max_weight=100)

Vector = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Scheme:
    """`encrypt(values [m], client)`, adding two of its results, and `decrypt(total)` [m].

    `clients` is how many updates a total adds up, `bytes` the size of one on the wire, a value.
    """

    name: str
    values: Vector
    encrypt: Callable[[Vector, int], Any]
    add: Callable[[Any, Any], Any]
    decrypt: Callable[[Any], Vector]
    bytes: float
    clients: int = 2

    def total(self) -> Any:
        return reduce(self.add, [self.encrypt(self.values, k) for k in range(self.clients)])

    def error(self) -> float:
        """The largest of a decrypted total."""
        return float(np.abs(self.decrypt(self.total()) - self.clients * self.values).max())

    def actions(self) -> list[Callable[[], object]]:
        sent, total = self.encrypt(self.values, 0), self.total()
        return [
            lambda: self.encrypt(self.values, 0),
            lambda: self.add(sent, sent),
            lambda: self.decrypt(total),
        ]


def costs(schemes: Sequence[Scheme], repeats: int) -> list[tuple[float, float, float]]:
    """CPU seconds a parameter to encrypt, add and decrypt; the schemes take turns."""
    spent = iter(seconds(*(a for item in schemes for a in item.actions()), repeats=repeats))
    found = []
    for scheme in schemes:
        encrypt, add, decrypt = next(spent), next(spent), next(spent)
        count = len(scheme.values)
        found.append((encrypt / count, add / count, decrypt / count))
    return found


def factor(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.2g}"


def updates(length: int) -> Vector:
    """An update [m] with values in -1 .. 1."""
    return np.random.default_rng(length).uniform(-1, 1, length)
