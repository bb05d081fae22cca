"""How a vector stands for records while an attack searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.records.range import InputSpec

__all__ = ["Candidates", "out_of_range", "target_shape"]


@dataclass(frozen=True)
class Candidates:
    """How a vector z [d] stands for S records: inputs in units of their range, then labels.

    `joint`: labels are softmax(logits) for classes, free numbers of `target_shape` for regression.
    """

    spec: InputSpec
    records: int
    classes: int | None
    joint: bool
    target_shape: tuple[int, ...] = ()

    @classmethod
    def of(cls, view: View, *, joint: bool) -> Candidates:
        """The candidates for a view; a regression target has the shape of one output."""
        shape = target_shape(view)
        return cls(view.input_spec, view.records, view.task.classes, joint, shape)

    @property
    def pixels(self) -> int:
        return self.records * self.spec.size

    @property
    def size(self) -> int:
        per_label = _size(self.target_shape) if self.classes is None else self.classes
        return self.pixels + (self.records * per_label if self.joint else 0)

    def inputs(self, z: torch.Tensor) -> torch.Tensor:
        """Inputs [..., S, *shape] of vectors z [..., d]."""
        unit = z[..., : self.pixels].reshape(*z.shape[:-1], self.records, *self.spec.shape)
        return self.spec.low + (self.spec.high - self.spec.low) * unit

    def targets(self, z: torch.Tensor) -> torch.Tensor:
        """Soft labels [..., S, classes], or regression targets [..., S, *target_shape]."""
        tail = z[..., self.pixels :]
        if self.classes is None:
            return tail.reshape(*z.shape[:-1], self.records, *self.target_shape)
        return torch.softmax(tail.reshape(*z.shape[:-1], self.records, self.classes), -1)


def target_shape(view: View) -> tuple[int, ...]:
    """The shape of one regression target, that of one output; () for classes."""
    if view.task.classes is not None:
        return ()
    spec = view.input_spec
    with torch.no_grad():
        probe = torch.full((1, *spec.shape), (spec.low + spec.high) / 2).to(view.weights)
        return tuple(view.task.outputs(view.weights, probe).shape[1:])


def out_of_range(unit: torch.Tensor) -> torch.Tensor:
    """Σ (x - clamp(x, 0, 1))² over inputs in units of their range.

    >>> out_of_range(torch.tensor([-0.5, 0.3, 2.0]))
    tensor(1.2500)
    """
    beyond = unit - unit.clamp(0, 1)
    return (beyond * beyond).sum()


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
