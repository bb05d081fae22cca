"""How a vector stands for records while an attack searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trilemma.errors import InvalidInput

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
        if view.input_spec.discrete:
            raise InvalidInput(
                f"this attack searches over real numbers, but an embedding looks up the "
                f"{view.input_spec.size} entries of a record; attack with 'gaussian-posterior', "
                f"which compares the candidates' updates, or with 'tokens'."
            )
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
        return self.spec.searched(self._units(z))

    def placed(self, starts: torch.Tensor, spread: float) -> torch.Tensor:
        """Standard normal starts [..., d] with their inputs where records usually lie."""
        units = self.spec.typical(self._units(starts), spread).flatten(-len(self.spec.shape) - 1)
        return torch.cat((units, starts[..., self.pixels :]), -1)

    def beyond(self, z: torch.Tensor) -> torch.Tensor:
        """How far the vector z [d] is out of range, squared; a category never is."""
        unit, columns = self._units(z), self.spec.columns
        if any(column.kind == "category" for column in columns):
            kinds = [column.kind == "category" for column in columns for _ in range(column.size)]
            unit = torch.where(torch.tensor(kinds, device=z.device), 0.5, unit)
        return out_of_range(unit)

    def _units(self, z: torch.Tensor) -> torch.Tensor:
        return z[..., : self.pixels].reshape(*z.shape[:-1], self.records, *self.spec.shape)

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
        probe = spec.inputs(torch.full((2, *spec.shape), 0.5).to(view.weights))
        return tuple(view.task.outputs(view.weights, probe).shape[1:])


def out_of_range(unit: torch.Tensor) -> torch.Tensor:
    """Σ (x - clamp(x, 0, 1))² over inputs in units of their range.

    >>> out_of_range(torch.tensor([-0.5, 0.3, 2.0]))
    tensor(1.2500)
    """
    # Where the clamp has a gradient the difference is zero: without it the gradient is the same.
    beyond = unit - unit.clamp(0, 1).detach()
    return (beyond * beyond).sum()


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
