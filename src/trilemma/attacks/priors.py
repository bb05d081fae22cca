"""What records look like: a Gaussian for each class, learnt from public records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.records.records import Records

__all__ = ["Prior", "Sorted", "shrinkage"]

_FULL: Final = 256  # numbers of a record up to which its covariance is held whole
_RANK: Final = 128  # directions that are kept of a larger one
_FURTHEST: Final = 3.0  # times as far from its class as it was found, a record is at most
_FLOOR: Final = 1e-3  # variance in every direction, in units of the range


def shrinkage(count: int) -> float:
    """The weight of all classes' covariance beside that of a class seen `count` times.

    .5 for 30 records, .1 for 300, straight in log(count) and never below .05.

    >>> [round(shrinkage(count), 2) for count in (0, 3, 30, 300, 3000)]
    [1.0, 0.9, 0.5, 0.1, 0.05]
    """
    if count < 2:
        return 1.0
    return min(1.0, max(0.05, 0.5 - 0.4 * math.log10(count / 30)))


@dataclass(frozen=True, eq=False)
class Sorted:
    """Records [n] by class: how to bring them in order, and how many of each class there are."""

    labels: torch.Tensor
    order: torch.Tensor
    back: torch.Tensor
    sizes: list[int]

    @classmethod
    def of(cls, labels: torch.Tensor, classes: int) -> Sorted:
        """Labels of any shape, read as one row."""
        flat = labels.reshape(-1)
        order = flat.argsort(stable=True)
        sizes = torch.bincount(flat, minlength=classes).tolist()
        return cls(flat, order, order.argsort(), sizes)


@dataclass(frozen=True, eq=False)
class Prior:
    """Records of class c are mean_c + L_c z, z ~ N(0, I), inputs in units of their range.

    mean [C, d]. Small records: L_c = factor_c [d, d]. Large ones: with `basis` [d, r] orthonormal,
    L_c = basis · factor_c · basisᵀ + `rest` · (I - basis · basisᵀ), so that nothing is out of
    reach. Regression has one class, and its targets, standardised, follow the inputs:
    target = shift + scale · number.
    """

    mean: torch.Tensor
    factor: torch.Tensor
    basis: torch.Tensor | None
    rest: float
    shift: torch.Tensor
    scale: torch.Tensor

    @classmethod
    def of(cls, public: Records, view: View) -> Prior:
        """N(m_c, (1 - a) S_c + a S + 10⁻³ I): S_c of class c, S within all, a = shrinkage(n_c)."""
        spec, classes = view.input_spec, view.task.classes
        like = torch.empty(0, dtype=torch.float64, device=view.weights.device)
        unit = spec.units(public.inputs.to(like)).flatten(1)
        labels = public.labels.to(like.device)
        shift, scale = like, like
        if classes is None:
            targets = labels.to(like).reshape(len(labels), -1)
            shift, scale = targets.mean(0), targets.std(0, correction=0).clamp(min=1e-6)
            unit = torch.cat((unit, (targets - shift) / scale), 1)
            labels = torch.zeros(len(unit), dtype=torch.long, device=like.device)
        mean, apart = _means(unit, labels, classes or 1)
        basis, rest = None, 0.0
        if unit.shape[1] > _FULL:
            basis, rest = _basis(apart)
            apart = apart @ basis
        counts = torch.bincount(labels, minlength=classes or 1).tolist()
        within = apart.T @ apart / max(1, len(apart) - sum(count > 0 for count in counts))
        made = []
        for label, count in enumerate(counts):
            own, borrowed = apart[labels == label], shrinkage(count)
            spread = own.T @ own / max(1, count - 1)
            made.append((1 - borrowed) * spread + borrowed * within)
        covariance = torch.stack(made)
        covariance.diagonal(dim1=1, dim2=2).add_(_FLOOR)
        factor = torch.linalg.cholesky(covariance)
        return cls(mean, factor, basis, rest, shift, scale)

    def to(self, dtype: torch.dtype) -> Prior:
        """The same in another precision."""
        basis = None if self.basis is None else self.basis.to(dtype)
        mean, factor = self.mean.to(dtype), self.factor.to(dtype)
        return Prior(mean, factor, basis, self.rest, self.shift.to(dtype), self.scale.to(dtype))

    @property
    def classes(self) -> int:
        return self.mean.shape[0]

    @property
    def size(self) -> int:
        """d, the numbers of a record."""
        return self.mean.shape[1]

    def records(self, z: torch.Tensor, by_class: Sorted) -> torch.Tensor:
        """mean_c + L_c z for z [..., d]."""
        return self.mean[by_class.labels].reshape(z.shape) + self._times(
            z, self.factor.mT, by_class
        )

    def pulled_back(self, gradient: torch.Tensor, by_class: Sorted) -> torch.Tensor:
        """L_cᵀ g: the gradient [..., d] in z of a function with gradient g [..., d] in records."""
        return self._times(gradient, self.factor, by_class)

    def pushed(self, records: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Likeliest records [U, n, d] of classes [U, n], moved away from the means of those.

        The mode lies nearer to its class than the record, by the share of the records' variance
        that was explained: ‖x - m_c‖² over tr(L_c L_cᵀ), both summed over a unit's records.
        """
        away = records - self.mean[labels]
        variance = self.factor.square().sum((1, 2))
        if self.basis is not None:
            variance = variance + self.rest**2 * (self.size - self.basis.shape[1])
        further = variance[labels].sum(1) / away.square().sum((1, 2)).clamp(min=1e-12)
        return self.mean[labels] + further.clamp(1, _FURTHEST)[:, None, None] * away

    def memberships(self, records: torch.Tensor) -> torch.Tensor:
        """log p(c | x) [n, C] of records [n, d], all classes being as frequent."""
        if self.classes == 1:
            return records.new_zeros(len(records), 1)
        away = records.to(self.mean) - self.mean[:, None]
        inner = away if self.basis is None else away @ self.basis
        white = torch.linalg.solve_triangular(self.factor, inner.mT, upper=False)
        found = -white.square().sum(1) / 2
        found -= self.factor.diagonal(dim1=1, dim2=2).log().sum(1, keepdim=True)
        if self.basis is not None:
            found -= (away.square().sum(2) - inner.square().sum(2)) / (2 * self.rest**2)
        return torch.log_softmax(found.T, 1)

    def _times(self, rows: torch.Tensor, factor: torch.Tensor, by_class: Sorted) -> torch.Tensor:
        """Each row times its class's factor; a product a class, not one a row."""
        flat = rows.reshape(-1, self.size)[by_class.order]
        inner = flat if self.basis is None else flat @ self.basis
        parts = [
            part @ factor[label]
            for label, part in enumerate(torch.split(inner, by_class.sizes))
            if len(part)
        ]
        outer = torch.cat(parts)
        if self.basis is not None:
            outer = self.rest * flat + (outer - self.rest * inner) @ self.basis.T
        return outer[by_class.back].reshape(rows.shape)


def _means(
    unit: torch.Tensor, labels: torch.Tensor, classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Class means [C, d] (that of all for a class without records), and each row's distance."""
    mean = unit.mean(0).repeat(classes, 1)
    for label in range(classes):
        if len(own := unit[labels == label]):
            mean[label] = own.mean(0)
    return mean, unit - mean[labels]


def _basis(apart: torch.Tensor) -> tuple[torch.Tensor, float]:
    """The directions [d, r] of most variance, and the deviation in all the others."""
    rank = min(_RANK, *apart.shape)
    _, values, rows = torch.linalg.svd(apart, full_matrices=False)
    left = float((values[rank:] ** 2).sum()) / len(apart) / (apart.shape[1] - rank)
    return rows[:rank].T.contiguous(), math.sqrt(left + _FLOOR)
