"""Records with several inputs: packed into one tensor, and taken apart before a model's forward.

A record of two inputs, tokens and their attention mask, is one row of whole numbers; what attacks
and protections handle is that row, and a hook gives the model its own two inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Part", "Unpacking", "packed", "ranged"]


@dataclass(frozen=True)
class Part:
    """One input: the keyword it goes by (None: its place), its shape, and its kind of numbers.

    `low` and `high` are the ends of its entries among the records that it was seen in.
    """

    name: str | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    low: float = 0.0
    high: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether its entries are tokens, categories or masks, and no real numbers."""
        return not self.dtype.is_floating_point

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Unpacking:
    """Before a model's forward: a packed batch [S, size] becomes the model's own inputs."""

    parts: tuple[Part, ...]

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        (rows,) = args
        given = self.given(rows)
        if isinstance(given, dict):
            return (), {**kwargs, **given}
        return given, kwargs

    def given(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...] | dict[str, torch.Tensor]:
        """The inputs in a packed batch [..., size], as they were given: a tuple or a dict."""
        cuts = torch.split(rows, [part.size for part in self.parts], dim=-1)
        values = [
            cut.reshape(*cut.shape[:-1], *part.shape).to(part.dtype if part.whole else cut.dtype)
            for cut, part in zip(cuts, self.parts, strict=True)
        ]
        names = [part.name for part in self.parts]
        if names[0] is None:
            return tuple(values)
        return {str(name): value for name, value in zip(names, values, strict=True)}


def packed(
    values: Sequence[torch.Tensor] | Mapping[str, torch.Tensor], whose: str
) -> tuple[torch.Tensor, tuple[Part, ...]]:
    """Inputs [n, ...], by place or keyword, as one tensor [n, size], and what stands where.

    Whole numbers and truth values alone stay whole; beside real numbers they become such, and are
    whole again before the model.
    """
    given = values if isinstance(values, Mapping) else dict(enumerate(values))
    names, tensors = list(given), list(given.values())
    if len({len(tensor) for tensor in tensors}) != 1:
        listed = ", ".join(str(len(tensor)) for tensor in tensors)
        raise InvalidInput(
            f"the {len(tensors)} inputs of {whose} hold {listed} records; give each as many."
        )
    if given is values and not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise InvalidInput(
            f"the inputs of {whose} are a dict, so its keys must be keywords of the model's "
            f"forward(), such as 'input_ids'; got {', '.join(map(repr, names))}."
        )
    parts = tuple(
        Part(name if isinstance(name, str) else None, tuple(tensor.shape[1:]), tensor.dtype)
        for name, tensor in given.items()
    )
    dtype = torch.int64 if all(part.whole for part in parts) else torch.get_default_dtype()
    return torch.cat([tensor.reshape(len(tensor), -1).to(dtype) for tensor in tensors], 1), parts


def ranged(parts: tuple[Part, ...], several: Sequence[torch.Tensor]) -> tuple[Part, ...]:
    """The parts with the ends of their entries in packed records, each [n, size]."""
    found, start = [], 0
    for part in parts:
        cuts = [rows[:, start : start + part.size] for rows in several]
        low = min(float(cut.min()) for cut in cuts)
        high = max(float(cut.max()) for cut in cuts)
        found.append(replace(part, low=low, high=high))
        start += part.size
    return tuple(found)
