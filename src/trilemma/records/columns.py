"""The columns of a table: what kind each is, and which entries of an input stand for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

from trilemma.errors import InvalidInput

__all__ = [
    "CLOSE",
    "Column",
    "Kind",
    "cells",
    "column_distance",
    "column_hits",
    "read_columns",
    "relaxed",
    "settled",
    "spans",
]

CLOSE: Final = 0.25
"""Standard deviations within which a number counts as right."""

Kind = Literal["number", "integer", "category", "code"]
_SHARPNESS: Final = 10.0  # of the softmax that stands for a category, a unit of the search


@dataclass(frozen=True)
class Column:
    """One column of a table.

    A `number` and an `integer` are one entry of the input, value = shift + unit · entry; a
    `category` is one entry a level (one-hot), a `code` one entry that holds the level's number,
    for models that look it up in an embedding. `mean` and `deviation` are those of the entry and
    [low, high] is its range; a scenario reads from its data what is None.

    >>> Column("age", "integer", shift=48.0, unit=13.0).shown(torch.tensor([1.0]))
    '61'
    """

    name: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()
    shift: float = 0.0
    unit: float = 1.0
    mean: float | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("number", "integer", "category", "code"):
            raise InvalidInput(
                f"column {self.name!r} must be a number, an integer, a category or a code, got "
                f"{self.kind!r}."
            )
        if self.counted != (len(self.levels) > 0):
            raise InvalidInput(
                f"column {self.name!r} is a {self.kind}, which has "
                f"{'levels' if self.counted else 'no levels'}, got {self.levels}."
            )
        if not (math.isfinite(self.shift) and math.isfinite(self.unit) and self.unit > 0):
            raise InvalidInput(
                f"column {self.name!r} needs a finite shift and a positive unit, got "
                f"{self.shift} and {self.unit}."
            )
        if self.deviation is not None and not 0 < self.deviation < math.inf:
            raise InvalidInput(
                f"column {self.name!r} needs a positive deviation, got {self.deviation}."
            )

    @property
    def counted(self) -> bool:
        """Whether its values are levels, not numbers."""
        return self.kind in ("category", "code")

    @property
    def size(self) -> int:
        """Entries of the input that stand for it."""
        return len(self.levels) if self.kind == "category" else 1

    @property
    def ends(self) -> tuple[float, float]:
        """The range of its entries; that of a constant is one unit long, to be searched in."""
        if self.kind == "category" or self.low is None or self.high is None:
            return 0.0, 1.0
        return self.low, self.high if self.high > self.low else self.low + 1.0

    def shown(self, entries: torch.Tensor) -> str:
        """The value of its entries [size], in the table's own units."""
        if self.kind == "category":
            return self.levels[int(entries.argmax())]
        if self.kind == "code":
            return self.levels[int(entries[0])]
        value = self.shift + self.unit * float(entries[0])
        return f"{round(value):d}" if self.kind == "integer" else f"{value:.4g}"


def spans(columns: Sequence[Column]) -> Iterator[tuple[Column, slice]]:
    """Each column with its entries' place in the input."""
    start = 0
    for column in columns:
        yield column, slice(start, start + column.size)
        start += column.size


def read_columns(columns: Sequence[Column], inputs: torch.Tensor) -> tuple[Column, ...]:
    """The columns with what they leave open read from a table's inputs [n, d]."""
    made = []
    for column, span in spans(columns):
        own = inputs[:, span].double()
        if column.kind == "category":
            if not bool((((own == 0) | (own == 1)).all(1) & (own.sum(1) == 1)).all()):
                raise InvalidInput(
                    f"column {column.name!r} is a category of {column.size} levels, so exactly "
                    f"one of entries {span.start} .. {span.stop - 1} must be 1 in every record."
                )
            made.append(column)
            continue
        low, high, spread = float(own.min()), float(own.max()), float(own.std(correction=0))
        if column.kind == "code" and not (
            bool((own == own.round()).all()) and low >= 0 and high < len(column.levels)
        ):
            raise InvalidInput(
                f"column {column.name!r} holds the numbers of {len(column.levels)} levels, so its "
                f"entries must be whole numbers from 0, got {low:g} .. {high:g}."
            )
        if column.deviation is None:
            column = replace(column, deviation=spread if spread > 0 else 1.0)
        made.append(
            replace(
                column,
                mean=float(own.mean()) if column.mean is None else column.mean,
                low=low if column.low is None else column.low,
                high=high if column.high is None else column.high,
            )
        )
    return tuple(made)


def relaxed(columns: Sequence[Column], unit: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Inputs [..., d] over which an attack searches: `numbers`, and softmax for the categories.

    A category's entries are softmax(10 (u - ½)) of its units u, so that they stay on the simplex
    and u = ½ everywhere leaves it undecided.
    """
    parts, last = [], 0
    for column, span in spans(columns):
        if column.kind == "category":
            logits = _SHARPNESS * (unit[..., span] - 0.5)
            parts += [numbers[..., last : span.start], torch.softmax(logits, -1)]
            last = span.stop
    return torch.cat([*parts, numbers[..., last:]], -1)


def settled(columns: Sequence[Column], inputs: torch.Tensor) -> torch.Tensor:
    """The nearest records [..., d] that the table could hold: whole integers, one level each."""
    made = inputs.clone()
    for column, span in spans(columns):
        own = inputs[..., span]
        if column.kind == "category":
            best = own.argmax(-1)
            made[..., span] = torch.nn.functional.one_hot(best, column.size).to(inputs)
            continue
        if column.low is not None and column.high is not None:
            own = own.clamp(column.low, column.high)
        if column.kind == "integer":
            own = ((column.shift + column.unit * own).round() - column.shift) / column.unit
        made[..., span] = own.round() if column.kind == "code" else own
    return made


def column_hits(
    columns: Sequence[Column], made: torch.Tensor, truth: torch.Tensor
) -> torch.Tensor:
    """Which columns [..., C] of settled reconstructions [..., d] are right.

    A number is right within .25 standard deviations, a level if it is the very one.
    """
    found = []
    for column, span in spans(columns):
        gap = (made[..., span].double() - truth[..., span].double()).abs().amax(-1)
        close = 0.5 if column.counted else CLOSE * (column.deviation or 1.0)
        found.append(gap <= close)
    return torch.stack(found, -1)


def column_distance(
    columns: Sequence[Column], made: torch.Tensor, candidates: torch.Tensor
) -> torch.Tensor:
    """The mean over columns [R, N] of the squared difference of [R, d] and [N, d].

    Numbers count in standard deviations; two levels differ by one, and what lies between them
    accordingly, ½ Σ (a - b)² over the entries of a category.
    """
    weights = torch.zeros(made.shape[-1], dtype=torch.float64)
    for column, span in spans(columns):
        weights[span] = 0.5 if column.kind == "category" else (column.deviation or 1.0) ** -2
    codes = [span.start for column, span in spans(columns) if column.kind == "code"]
    rows = []
    for item in candidates.double():
        gap = (made.double() - item).square() * weights.to(made.device)
        gap[:, codes] = (made.double()[:, codes].round() != item[codes]).double()
        rows.append(gap.sum(1))
    return torch.stack(rows, 1) / len(columns)


def cells(columns: Sequence[Column], record: torch.Tensor) -> list[str]:
    """A record [d] as one text a column; a reconstruction that is no number is a dash.

    >>> table = (Column("sex", "category", ("f", "m")), Column("age", "integer", unit=10.0))
    >>> cells(table, torch.tensor([0.2, 0.8, 4.14]))
    ['m', '41']
    """
    return [
        column.shown(record[span]) if bool(torch.isfinite(record[span]).all()) else "–"
        for column, span in spans(columns)
    ]
