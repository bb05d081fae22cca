"""Tables of a page, and the seconds that stand in them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "Table", "once", "rate", "seconds"]

_LEAST = 0.01  # seconds of a turn

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    title: str
    columns: str
    rows: list[Row]
    note: str = ""

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", f"| {self.columns} |"]
        lines.append("|" + "---|" * len(self.columns.split(" | ")))
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])


def once(action: Callable[[], object]) -> float:
    """CPU seconds of this process for one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def seconds(*actions: Callable[[], object], repeats: int = 3) -> list[float]:
    """The median CPU seconds of a call of each action, after one that is not counted.

    The actions take turns, so that all meet the same weather; in its turn a short one is called
    until it has taken a hundredth of a second or so, as others leave cold caches behind.
    """
    calls = [min(1000, math.ceil(_LEAST / max(once(action), 1e-6))) for action in actions]
    spent: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for action, count, turns in zip(actions, calls, spent, strict=True):
            turns.append(once(lambda: [action() for _ in range(count)]) / count)  # noqa: B023
    return [statistics.median(turns) for turns in spent]


def rate(count: float, spent: float) -> str:
    value = count / spent
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"
