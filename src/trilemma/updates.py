"""A model's update as one flat vector: `Layout` maps a module's named tensors there and back.

Importing this file does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    import torch

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a model's trainable tensors, in the order of the flat vector.

    >>> import torch
    >>> layout = Layout.of(torch.nn.Linear(3, 2))
    >>> layout.size, layout.names
    (8, ('weight', 'bias'))
    >>> layout.unflatten(torch.arange(8.0))["bias"]
    tensor([6., 7.])
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, model: torch.nn.Module) -> Layout:
        """The layout of a module's parameters that require a gradient."""
        trainable = [(n, tuple(p.shape)) for n, p in model.named_parameters() if p.requires_grad]
        if not trainable:
            raise InvalidInput(
                "the model has no trainable parameter, so it sends no update; "
                "set requires_grad on what the clients train."
            )
        return cls(tuple(n for n, _ in trainable), tuple(s for _, s in trainable))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of coordinates of each tensor."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @cached_property
    def size(self) -> int:
        """m, the number of coordinates of an update."""
        return sum(self.sizes)

    def flatten(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Tensors by name -> one vector [m]; copies once, or not at all for a single tensor."""
        import torch  # heavy: `trilemma solve` must start without it

        if missing := set(self.names) - set(tensors):
            raise InvalidInput(f"the update lacks the tensor {sorted(missing)[0]!r} of the model.")
        parts = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            if tuple(tensors[name].shape) != shape:
                raise InvalidInput(
                    f"tensor {name!r} has shape {tuple(tensors[name].shape)}, "
                    f"but the model has {shape}."
                )
            parts.append(tensors[name].reshape(-1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def unflatten(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """A vector [m] -> tensors by name, all of them views of it."""
        import torch  # heavy: `trilemma solve` must start without it

        if tuple(vector.shape) != (self.size,):
            raise InvalidInput(
                f"a flat update of this model has shape ({self.size},), got {tuple(vector.shape)}."
            )
        parts = torch.split(vector, list(self.sizes))
        return {
            name: part.view(shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }
