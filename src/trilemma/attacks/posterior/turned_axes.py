"""Large models: the few coordinates of an update, along turned axes, that tell records apart.

An orthonormal turn leaves noise as it is, and each matrix of weights has axes along which
gradients lie close together: the gradients behind a layer span no more than the classes do, the
inputs before it few directions. So an attacker reads some thousand turned coordinates and misses
next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch

from trilemma.learning import Products

if TYPE_CHECKING:
    from trilemma.updates import Layout

__all__ = ["Axes", "are_many", "principal_axes"]

_READ: Final = 2**13  # coordinates that are read
_TURNED: Final = 2**10  # the longest side that is turned: its axes take s² operations and more
_ALL, _LEADING = 2**7, 2**5  # the longest side of which all axes are found, and how many of others
_ITERATIONS: Final = 2


def are_many(coordinates: int) -> bool:
    """Whether so many coordinates are worth a choice."""
    return coordinates > 2 * _READ


@dataclass(frozen=True, eq=False)
class Axes:
    """How to read k coordinates of one unit's updates [n, m], tensor by tensor."""

    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, layout: Layout, rows: torch.Tensor, known: torch.Tensor) -> Axes:
        """Those along which centred rows [n, m] vary most.

        Where only some coordinates are `known` [m], those are read as they are.
        """
        whole, sizes = bool((known == 1).all()), list(layout.sizes)
        split = zip(torch.split(rows, sizes, 1), layout.shapes, strict=True)
        parts = [_Part.of(*item) if whole else _Part((1, item[0].shape[1])) for item in split]
        seen = cls(tuple(parts)).read(torch.split(rows, sizes, 1))
        energy, most = seen.square().sum(0), _READ
        if not whole:
            energy, most = torch.where(known > 0, energy, -1.0), int((known > 0).sum())
        chosen = energy.topk(min(_READ, most, len(energy))).indices.sort().values
        stop, inside = 0, []
        for part in parts:
            start, stop = stop, stop + part.count
            inside.append(chosen[(chosen >= start) & (chosen < stop)] - start)
        return cls(tuple(p.only(c) for p, c in zip(parts, inside, strict=True)))

    @property
    def tensors(self) -> torch.Tensor:
        """Which tensor each of the k coordinates belongs to."""
        counts = [part.count for part in self.parts]
        return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))

    def read(self, tensors: Sequence[torch.Tensor | Products]) -> torch.Tensor:
        """The coordinates [n, k] of updates, given tensor by tensor as [n, size], or products."""
        split = zip(self.parts, tensors, strict=True)
        return torch.cat([part.read(item) for part, item in split], 1)


@dataclass(frozen=True, eq=False)
class _Part:
    """One tensor as a matrix [d, e], turned by [e, r], or from the left by [d, r].

    `chosen` are the places that are read in the turned matrix, flat; None: all.
    """

    shape: tuple[int, int]
    turn: torch.Tensor | None = None
    left: bool = False
    chosen: torch.Tensor | None = None

    @classmethod
    def of(cls, rows: torch.Tensor, shape: tuple[int, ...]) -> _Part:
        """The principal axes of rows [n, size] along the shorter side."""
        first = shape[0] if shape else 1
        sides = first, rows.shape[1] // first
        if not 1 < min(sides) <= _TURNED:
            return cls(sides)
        left = sides[0] < sides[1]
        matrices = rows.reshape(-1, *sides)
        flat = (matrices.transpose(1, 2) if left else matrices).reshape(-1, min(sides))
        squares = (flat.T @ flat).nan_to_num(0.0, 0.0, 0.0)  # a diverged unit fails, later
        return cls(sides, principal_axes(squares), left)

    @property
    def width(self) -> int:
        """Columns of the turned matrix."""
        return self.shape[1] if self.turn is None or self.left else self.turn.shape[1]

    @property
    def count(self) -> int:
        """How many coordinates are read."""
        if self.chosen is not None:
            return len(self.chosen)
        if self.turn is not None and self.left:
            return self.width * self.turn.shape[1]
        return self.width * self.shape[0]

    def read(self, rows: torch.Tensor | Products) -> torch.Tensor:
        """What is read of rows [n, size]."""
        if isinstance(rows, Products):
            left, right = (self.turn, None) if self.left else (None, self.turn)
            rows = rows.between(left, right).flatten(1)
        elif self.turn is not None:
            matrices = rows.reshape(-1, *self.shape)
            rows = (self.turn.T @ matrices if self.left else matrices @ self.turn).flatten(1)
        return rows if self.chosen is None else rows.index_select(1, self.chosen)

    def only(self, chosen: torch.Tensor) -> _Part:
        """Reads the places chosen, and makes only the axes that they lie on."""
        if self.turn is None:
            return replace(self, chosen=chosen)
        down, across = chosen // self.width, chosen % self.width
        used, place = torch.unique(down if self.left else across, return_inverse=True)
        chosen = place * self.width + across if self.left else down * len(used) + place
        return replace(self, turn=self.turn[:, used].contiguous(), chosen=chosen)


def principal_axes(squares: torch.Tensor) -> torch.Tensor:
    """Orthonormal axes [s, r] along which a sum of squares [s, s] is largest.

    All of a short side; of a long one those that lead, by subspace iteration: on a GPU all axes of
    ResNet-18 take a quarter of an attack's time, and fewer than ten of a tensor are ever read.
    """
    side = len(squares)
    if side > _ALL:
        draw, many = torch.Generator().manual_seed(0), squares.double()
        many = many / many.abs().max().clamp(min=torch.finfo(many.dtype).tiny)
        span = torch.randn(side, _LEADING, dtype=torch.float64, generator=draw).to(many.device)
        for _ in range(_ITERATIONS):
            span = torch.linalg.qr(many @ (many @ span)).Q
        return (span @ principal_axes(span.T @ many @ span)).to(squares)
    axes: torch.Tensor = torch.linalg.eigh(squares.double()).eigenvectors  # may fail in single
    return axes.to(squares)
