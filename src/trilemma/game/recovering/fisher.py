"""How well noise hides the inputs, predicted from the update's Jacobian without any attack.

An attacker that has converged to the truth and has no other knowledge makes an error of
covariance s²(JᵀJ)⁻¹, where J is the Jacobian of the update with respect to inputs and labels.
It is a prediction for such attackers, never a certificate: a prior on the data does better.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.matching import ViewTensors, explained_update
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.learning import Way

__all__ = ["FisherPrediction", "predict", "sensitivity"]

_MOST = 2048  # unknowns: beyond, the Jacobian takes minutes
_BLOCK = 64  # columns of the Jacobian computed at once


@dataclass(frozen=True, eq=False)
class FisherPrediction:
    """Predicted error of N units of S records: MSE = s² · sensitivity, for noise of variance s².

    `sensitivities` [N, S] = mean_i c_i [(JᵀJ)⁻¹]_ii over a record's entries, `width` = high - low.

    >>> p = FisherPrediction(torch.tensor([[4.0], [5.0], [6.0]], dtype=torch.float64), 1.0)
    >>> round(p.half_point(20.0), 6), p.success(1.9e-3, 20.0)
    (0.002, 0.6666666666666666)
    """

    sensitivities: torch.Tensor
    width: float

    def mse(self, variance: float) -> torch.Tensor:
        """Predicted mean squared error [N, S] of each record."""
        return variance * self.sensitivities

    def psnr(self, variance: float) -> torch.Tensor:
        """Predicted 10·log10(width² / MSE) [N, S] in dB."""
        return 10 * torch.log10(self.width**2 / self.mse(variance))

    def success(self, variance: float, threshold_db: float) -> float:
        """Share of records whose predicted PSNR exceeds the threshold."""
        return float((self.psnr(variance) > threshold_db).double().mean())

    def half_point(self, threshold_db: float) -> float:
        """The noise variance at which half of the units' mean error reaches the threshold."""
        limit = self.width**2 * 10 ** (-threshold_db / 10)
        return float((limit / self.sensitivities.double().mean(1)).quantile(0.5))


def predict(
    views: Sequence[View], inputs: torch.Tensor, targets: torch.Tensor
) -> FisherPrediction:
    """The prediction for units with true inputs [N, S, *shape] and targets [N, S]."""
    if not views or len(views) != inputs.shape[0]:
        raise InvalidInput(f"got {len(views)} views, but inputs of {inputs.shape[0]} units.")
    values = [sensitivity(*group) for group in zip(views, inputs, targets, strict=True)]
    spec = views[0].input_spec
    return FisherPrediction(torch.stack(values).cpu(), spec.high - spec.low)


def sensitivity(view: View, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """mean_i c_i [(JᵀJ)⁻¹]_ii of each record [S] of a unit [S, *shape]; infinite if singular.

    Rows of J are the known coordinates of the update, columns the inputs' entries and the labels
    along their simplex. c_i = 1/2 where an entry lies at the border of its range, because
    clamping halves the squared error there, else 1.
    """
    update, start = _parametrised(view, inputs, targets)
    if start.numel() > _MOST:
        raise InvalidInput(
            f"the prediction forms a Jacobian of up to {_MOST} unknowns, got {start.numel()}; "
            f"take fewer records or smaller ones."
        )
    spec = view.input_spec
    flat = inputs.reshape(-1).double()
    border = (flat <= spec.low) | (flat >= spec.high)
    share = torch.where(border, 0.5, 1.0).to(start)
    with warnings.catch_warnings():
        # torch's forward mode compiles its own rules with a deprecated tool on first use
        warnings.simplefilter("ignore", FutureWarning)
        found = _exact(update, start, share, view.task.way)
    return found.double().reshape(len(inputs), -1).mean(1)


def _parametrised(
    view: View, inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """The known update as a function of z = (inputs, label directions), and the true z."""
    units = ViewTensors.of([view], "double")
    task = view.task
    x = inputs.to(units.weights)
    if task.classes is None:
        truth = targets.to(units.weights)
        basis = torch.eye(math.prod(truth.shape[1:]), dtype=x.dtype, device=x.device)
    else:
        truth = torch.nn.functional.one_hot(targets, task.classes).to(units.weights)
        # orthonormal directions in which a label keeps summing to one
        ones = torch.ones(task.classes, 1, dtype=x.dtype, device=x.device)
        basis = torch.linalg.qr(ones, mode="complete").Q[:, 1:].T
    size, directions = x.numel(), basis.shape[0]

    def update(z: torch.Tensor) -> torch.Tensor:
        shift = z[size:].reshape(x.shape[0], directions) @ basis
        return units.known[0] * explained_update(
            task,
            units.weights[0],
            z[:size].reshape(x.shape),
            truth + shift.reshape(truth.shape),
            view.local_training,
            units.client_weights[0],
            view.observation.clip,
        )

    return update, torch.cat((x.reshape(-1), x.new_zeros(x.shape[0] * directions)))


def _exact(
    update: Callable[[torch.Tensor], torch.Tensor], z: torch.Tensor, share: torch.Tensor, way: Way
) -> torch.Tensor:
    """c_i [(JᵀJ)⁻¹]_ii of every entry of the inputs."""
    size = z.numel()
    eye = torch.eye(size, dtype=z.dtype, device=z.device)
    column = way.vmap(lambda direction: way.jvp(update, z, direction))
    jacobian = torch.cat([column(block) for block in torch.split(eye, _BLOCK)])  # Jᵀ, [d, m]
    factor, info = torch.linalg.cholesky_ex(jacobian @ jacobian.T)
    if int(info) != 0:
        return torch.full_like(share, math.inf)
    return share * torch.cholesky_inverse(factor).diagonal()[: share.numel()]
