"""Tables of a page, and the seconds that stand in them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "Table", "once", "rate", "seconds"]

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
    """The median CPU seconds of each action, after a call of each that is not counted.

    The actions take turns, so that all meet the same weather.
    """
    turns = [[once(action) for action in actions] for _ in range(1 + repeats)][1:]
    return [statistics.median(spent) for spent in zip(*turns, strict=True)]


def rate(count: float, spent: float) -> str:
    value = count / spent
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"
