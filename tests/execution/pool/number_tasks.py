"""Tasks that square a number, or make trouble: named, so that worker processes can import them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from trilemma.errors import InvalidInput


@dataclass(frozen=True)
class Number:
    number: int

    @property
    def key(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"number {self.number}"


Make = Callable[[], Callable[[Number], bytes]]


def square(task: Number) -> bytes:
    return f"{task.number**2}".encode()


def make_square() -> Callable[[Number], bytes]:
    return square


def _trouble(kind: str, task: Number) -> bytes:
    if task.number == 1 and kind == "mendable":
        raise InvalidInput("the model returns NaN.")
    if task.number == 1 and kind == "bug":
        raise ZeroDivisionError("a bug")
    if kind == "slow":
        time.sleep(60)  # it is ended long before
    return b"fine"


def make_trouble(kind: str) -> Callable[[Number], bytes]:
    return partial(_trouble, kind)
