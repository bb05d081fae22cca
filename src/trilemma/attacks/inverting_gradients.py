"""Inverting Gradients: match the direction of the update, with an image prior, by signed Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from trilemma.attacks.labels import infer_labels
from trilemma.attacks.matching import (
    Candidates,
    Precision,
    ViewTensors,
    explained_update,
    random_starts,
    reconstructions,
)
from trilemma.learning import traced
from trilemma.learning.recording.capturing import Captured, Repeated

if TYPE_CHECKING:
    from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View

__all__ = ["InvertingGradients", "total_variation"]

_DECAYS = (3 / 8, 5 / 8, 7 / 8)  # of the iterations; the rate drops to a tenth at each
_BETAS = (0.9, 0.999)


def total_variation(inputs: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels of images [..., H, W], any channels."""
    down = (inputs[..., 1:, :] - inputs[..., :-1, :]).abs().mean()
    right = (inputs[..., 1:] - inputs[..., :-1]).abs().mean()
    return down + right


@dataclass(frozen=True)
class InvertingGradients:
    """Geiping et al. (2020): minimise 1 - cos(explained, observed) + tv·TV(inputs).

    Works where second derivatives vanish (ReLU), because only the sign of the descent direction
    is used. TV needs inputs of shape [H, W] or [C, H, W] and is left out for any other. Labels
    are inferred, or found jointly where the update does not tell them. Under noise it ends after
    400 iterations, in sums of several clients after 200.
    """

    iterations: int = 1000
    rate: float = 0.1
    tv: float = 1e-3
    slots: int = 64
    precision: Precision = "single"

    # noise is matched by then: as many digits as after 1,000; of 160 sums 14, after 400 15
    noisy_iterations: ClassVar[int] = 400
    sum_iterations: ClassVar[int] = 200

    name: ClassVar[str] = "inverting-gradients"
    knows: ClassVar[KnowledgeLevel] = "nothing"
    searches: ClassVar[bool] = True

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = ViewTensors.of(views, self.precision)
        labels = infer_labels(units, seed)
        candidates = Candidates.of(units.view, joint=labels is None)
        if labels is None:
            labels = torch.zeros(len(units), 0, dtype=torch.long, device=units.weights.device)
        starts = random_starts(units, candidates, self.name, restarts, seed)
        starts = candidates.placed(starts, 0.25)
        best = starts[:, 0].clone()
        loss = torch.full_like(best[:, 0], torch.inf)
        everyone = torch.arange(len(units), device=best.device)
        with torch.no_grad():
            for restart in range(restarts):
                for rows in torch.split(everyone, units.at_once(self.slots)):
                    found, value = self.descend(
                        units, candidates, starts[rows, restart], labels, rows
                    )
                    better = value < loss[rows]
                    best[rows] = torch.where(better[:, None], found, best[rows])
                    loss[rows] = torch.where(better, value, loss[rows])
        return reconstructions(units, candidates, best, loss, labels)

    def descend(
        self,
        units: ViewTensors,
        candidates: Candidates,
        z: torch.Tensor,
        labels: torch.Tensor,
        rows: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Signed Adam on one group of units; the best point seen [A, d] and its loss [A]."""
        tensors = (units.weights, units.update, units.known, units.client_weights, labels)
        data = tuple(tensor[rows] for tensor in tensors)
        view = units.view
        way = view.task.way
        function = way.vmap(way.grad_and_value(self._objective(candidates, view)))
        key = ("cosine", self.tv, candidates, view.local_training, view.observation.clip)
        evaluate = traced(key, view.task, function, (z, *data))
        z, best, lowest = z.clone(), z.clone(), torch.full_like(z[:, 0], torch.inf)
        first, second, scale = torch.zeros_like(z), torch.zeros_like(z), z.new_empty(3)
        iterations = self.iterations
        if bool((units.noise > 0).any()):
            iterations = min(iterations, self.noisy_iterations)
        if view.observation.clients > 1:
            iterations = min(iterations, self.sum_iterations)

        def descend() -> None:
            gradient, loss = evaluate(z, *data)
            better = loss < lowest
            torch.where(better[:, None], z, best, out=best)
            torch.where(better, loss, lowest, out=lowest)
            direction = torch.sign(gradient)
            first.mul_(_BETAS[0]).add_(direction, alpha=1 - _BETAS[0])
            second.mul_(_BETAS[1]).add_(direction.square_(), alpha=1 - _BETAS[1])
            spread = (second / scale[1]).sqrt_().add_(1e-8)
            z.sub_((first / scale[0]).mul_(scale[2]).div_(spread))
            z[:, : candidates.pixels].clamp_(0, 1)

        # A GPU is handed a whole step at once; what changes from step to step lies there.
        step = Repeated(descend) if isinstance(evaluate, Captured) else descend
        for row in torch.tensor(list(self._scales(iterations)), dtype=z.dtype).to(z.device):
            scale.copy_(row)
            step()
        return best, lowest

    def _scales(self, iterations: int) -> Iterator[tuple[float, float, float]]:
        """1 - β₁ᵗ, 1 - β₂ᵗ and the rate of each step t."""
        rate, milestones = self.rate, {int(fraction * iterations) for fraction in _DECAYS}
        for step in range(1, iterations + 1):
            yield 1 - _BETAS[0] ** step, 1 - _BETAS[1] ** step, rate
            if step in milestones:
                rate /= 10

    def _objective(self, candidates: Candidates, view: View) -> Callable[..., torch.Tensor]:
        clip, training, task = view.observation.clip, view.local_training, view.task
        image = len(candidates.spec.shape) in (2, 3)

        def objective(
            z: torch.Tensor,
            weights: torch.Tensor,
            update: torch.Tensor,
            known: torch.Tensor,
            client_weights: torch.Tensor,
            labels: torch.Tensor,
        ) -> torch.Tensor:
            targets = candidates.targets(z) if candidates.joint else labels
            explained = known * explained_update(
                task, weights, candidates.inputs(z), targets, training, client_weights, clip
            )
            tiny = torch.finfo(z.dtype).tiny
            norms = torch.sqrt((explained**2).sum() * (update**2).sum() + tiny)
            distance = 1 - (explained * update).sum() / norms
            if image and self.tv:
                unit = z[: candidates.pixels].reshape(-1, *candidates.spec.shape)
                distance = distance + self.tv * total_variation(unit)
            return distance

        return objective
