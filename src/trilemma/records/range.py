"""The shape of a record and the range of its entries: all that an attack takes for granted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import Column, read_columns, relaxed, settled
from trilemma.records.parts import Part, ranged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.records.records import Records

__all__ = ["InputSpec"]


@dataclass(frozen=True)
class InputSpec:
    """Shape of one record's input and the range [low, high] of its entries.

    A table has `columns`, each with a range of its own; text has a `vocabulary`: its entries are
    the numbers of tokens. Where a model takes several inputs, `parts` says what stands where.
    """

    shape: tuple[int, ...]
    low: float
    high: float
    columns: tuple[Column, ...] = field(default=(), repr=False)
    vocabulary: int | None = field(default=None, repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.shape or any(size < 1 for size in self.shape):
            raise InvalidInput(f"an input's shape must have positive sizes, got {self.shape}.")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(
                f"inputs must lie in a finite range low < high, got [{self.low}, {self.high}]; "
                f"rescale the data."
            )
        entries = sum(column.size for column in self.columns)
        if self.columns and self.shape != (entries,):
            raise InvalidInput(
                f"the {len(self.columns)} columns of this table stand for {entries} entries, but "
                f"an input has shape {self.shape}; declare every column, a category by its levels."
            )

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def discrete(self) -> bool:
        """Whether an entry is looked up in an embedding, so that no gradient leads to it."""
        codes = any(column.kind == "code" for column in self.columns)
        return codes or self.vocabulary is not None or any(part.whole for part in self.parts)

    @classmethod
    def of(
        cls, clients: Sequence[Records], others: Sequence[Records], columns: Sequence[Column] = ()
    ) -> InputSpec:
        """Shape and range of the clients' inputs, and what their columns leave open.

        Whole numbers are tokens: the largest tells the vocabulary.
        """
        parts = _parts((*clients, *others))
        shapes = {tuple(client.inputs.shape[1:]) for client in (*clients, *others)}
        if len(shapes) > 1:
            raise InvalidInput(f"all inputs must have one shape, got {sorted(shapes)}.")
        low = min(client.inputs.min().item() for client in clients)
        high = max(client.inputs.max().item() for client in clients)
        if low == high:
            raise InvalidInput(
                f"every input value of the clients is {low}, so there is nothing to recover."
            )
        shape = shapes.pop()
        if not clients[0].inputs.is_floating_point():
            last = max(int(client.inputs.max()) for client in (*clients, *others))
            return cls(shape, float(low), float(last), vocabulary=last + 1, parts=parts)
        if columns:
            cls(shape, low, high, tuple(columns))  # before the data is read by columns
            columns = read_columns(columns, torch.cat([client.inputs for client in clients]))
        return cls(shape, low, high, tuple(columns), parts=parts)

    def bounds(self, like: torch.Tensor) -> tuple[float | torch.Tensor, float | torch.Tensor]:
        """The lowest and the highest value of the entries: of all, or of each of a table's [d]."""
        if not self.columns:
            return self.low, self.high
        ends = [column.ends for column in self.columns for _ in range(column.size)]
        return like.new_tensor([low for low, _ in ends]), like.new_tensor(
            [high for _, high in ends]
        )

    def inputs(self, unit: torch.Tensor) -> torch.Tensor:
        """Inputs [..., *shape] of numbers in units of the range, as they are."""
        low, high = self.bounds(unit)
        return low + (high - low) * unit

    def units(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs [..., *shape] in units of the range."""
        low, high = self.bounds(inputs)
        return (inputs - low) / (high - low)

    def searched(self, unit: torch.Tensor) -> torch.Tensor:
        """Inputs [..., *shape] over which an attack searches; categories stay on their simplex."""
        numbers = self.inputs(unit)
        return relaxed(self.columns, unit, numbers) if self.columns else numbers

    def typical(self, normal: torch.Tensor, spread: float) -> torch.Tensor:
        """Units [..., *shape] at which a search starts, of standard normal ones.

        About the middle of the range; of a table's numbers, as they are spread.
        """
        middle = 0.5 + spread * normal
        if not self.columns:
            return middle
        numbers = [
            (column.mean or 0.0, 0.0 if column.kind == "category" else column.deviation or 1.0)
            for column in self.columns
            for _ in range(column.size)
        ]
        mean, deviation = (normal.new_tensor(group) for group in zip(*numbers, strict=True))
        return torch.where(deviation > 0, self.units(mean + deviation * normal), middle)

    def settled(self, inputs: torch.Tensor) -> torch.Tensor:
        """The nearest records [..., *shape] that could be: in range, of a table's own values."""
        if self.columns:
            return settled(self.columns, inputs)
        return inputs.clamp(self.low, self.high)


def _parts(several: Sequence[Records]) -> tuple[Part, ...]:
    """Where the inputs of packed records stand, and their ranges; all must be packed alike."""
    kinds = {tuple((p.name, p.shape, p.whole) for p in item.parts) for item in several}
    if len(kinds) > 1:
        shown = " and ".join(
            sorted(
                ", ".join(f"{name or 'one'} {list(shape)}" for name, shape, _ in kind) or "one"
                for kind in kinds
            )
        )
        raise InvalidInput(
            f"all records must have the same inputs, but some have {shown}; give clients, test "
            f"and public records alike."
        )
    parts = several[0].parts
    return ranged(parts, [item.inputs for item in several]) if parts else ()
