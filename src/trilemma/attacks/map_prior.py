"""The likeliest records: an update explained by records that look like public ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from trilemma.attacks.base import Reconstructions, public_records
from trilemma.attacks.label_evidence import labels_by_evidence
from trilemma.attacks.matching import Minima, ViewTensors, explained_update, minimise
from trilemma.attacks.matching.lbfgs import StaticEvaluation
from trilemma.attacks.matching.record_vectors import out_of_range, target_shape
from trilemma.attacks.matching.search import filled, widened
from trilemma.attacks.priors import Prior, Sorted
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import traced
from trilemma.learning.recording.capturing import Captured

if TYPE_CHECKING:
    from trilemma.attacks.base import KnowledgeLevel, View
    from trilemma.attacks.matching.lbfgs import Evaluate

__all__ = ["MAP", "bound_posterior", "normal_starts"]

_BORDER = 500.0  # weight of the value range beside the log density of the prior


@dataclass(frozen=True)
class MAP:
    """Maximum a posteriori under a Gaussian prior that public records taught.

    Labels by evidence, then x = m_c + L_c z minimises
    ‖known·(explained - observed)‖² / 2s² + ‖z‖² / 2 + 500 Σ (x - clamp x)². Where there is less
    noise than a level, s² falls from level to level, each from the last minimum.

    The fields are the effort: levels of s², relative to the mean square of the observed
    coordinates, with the evaluations at each, for messages and for sums of clients; starts at
    most, of which more than one changes little; pairs of L-BFGS memory, and units evaluated at
    once.
    """

    message_levels: tuple[tuple[float, int], ...] = ((1e-2, 150), (1e-4, 150), (1e-5, 300))
    sum_levels: tuple[tuple[float, int], ...] = ((1e-3, 300), (1e-5, 600))
    most_starts: int = 1
    history: int = 40
    slots: int = 64

    name: ClassVar[str] = "map"
    knows: ClassVar[KnowledgeLevel] = "public"
    searches: ClassVar[bool] = True

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        if restarts < 1:
            raise InvalidInput(f"restarts must be at least 1, got {restarts}.")
        public = public_records(views, self.name)
        units = ViewTensors.of(views, "single")  # s² is never so small that double would tell more
        view = units.view
        prior = Prior.of(public, view).to(units.weights.dtype)
        labels = torch.zeros(
            len(units), view.records, dtype=torch.long, device=view.weights.device
        )
        if view.task.classes is not None:
            labels = labels_by_evidence(units, public, seed)
        with torch.no_grad():
            minima = self._search(units, prior, labels, min(restarts, self.most_starts), seed)
        inputs, labels, guesses = _read(minima.points, view, prior, labels)
        failed = ~torch.isfinite(minima.loss)
        return Reconstructions(inputs, labels, minima.loss.to(inputs), failed, guesses=guesses)

    def _search(
        self, units: ViewTensors, prior: Prior, labels: torch.Tensor, starts: int, seed: int
    ) -> Minima:
        sums = units.view.observation.clients > 1
        size = units.view.records * prior.size
        drawn = normal_starts(units, starts, size, seed).to(units.weights)
        points = (0.7 if sums else 0.5) * drawn
        never = torch.full_like(units.noise, -torch.inf)
        levels = self.sum_levels if sums else self.message_levels
        for variance, falls, iterations in units.variances(levels):
            minima = minimise(
                bound_posterior(units, prior, labels, variance),
                points,
                torch.where(falls, never, torch.inf),  # any other is where it ends already
                solved=never,
                resolution=torch.full_like(units.noise, 0.1),
                iterations=iterations,
                history=self.history,
                slots=units.at_once(self.slots),
            )
            points = minima.points[:, None]
        return minima


def normal_starts(units: ViewTensors, starts: int, size: int, seed: int) -> torch.Tensor:
    """Standard normal [U, R, size], one stream a unit's number."""
    streams = (Seeded(seed).torch_generator("map", *number) for number in units.numbers)
    drawn = [
        torch.randn(starts, size, generator=stream, dtype=torch.float64) for stream in streams
    ]
    return torch.stack(drawn)


def _read(
    points: torch.Tensor, view: View, prior: Prior, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs [A, n, *shape], labels or targets [A, n, ...] and guesses at points [A, n·d]."""
    z = torch.nan_to_num(points).reshape(*labels.shape, prior.size)
    found, spec = prior.records(z, Sorted.of(labels, prior.classes)), view.input_spec
    dtype = view.observation.update.dtype
    inputs, guesses = (
        spec.settled(_inputs(value, view)).to(dtype)
        for value in (found, prior.pushed(found, labels))
    )
    if view.task.classes is None:
        targets = prior.shift + prior.scale * found[..., spec.size :]
        labels = targets.reshape(*targets.shape[:2], *target_shape(view)).to(dtype)
    return inputs, labels, guesses


def _inputs(numbers: torch.Tensor, view: View) -> torch.Tensor:
    """Inputs [..., *shape] of records as the prior counts them [..., d]."""
    spec = view.input_spec
    return spec.inputs(numbers[..., : spec.size].reshape(*numbers.shape[:-1], *spec.shape))


def bound_posterior(
    units: ViewTensors, prior: Prior, labels: torch.Tensor, variance: torch.Tensor
) -> Callable[[torch.Tensor], Evaluate]:
    """What `minimise` binds: the negative log posterior of z [A, n·d] and its gradient."""
    view = units.view
    clip, training, task = view.observation.clip, view.local_training, view.task
    shape, one_target = (view.records, prior.size), target_shape(view)

    def misfit(
        numbers: torch.Tensor,
        variance: torch.Tensor,
        weights: torch.Tensor,
        update: torch.Tensor,
        known: torch.Tensor,
        client_weights: torch.Tensor,
        shift: torch.Tensor,
        scale: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        targets = labels
        if task.classes is None:
            targets = shift + scale * numbers[:, view.input_spec.size :]
            targets = targets.reshape(-1, *one_target)
        explained = explained_update(
            task, weights, _inputs(numbers, view), targets, training, client_weights, clip
        )
        residual = known * explained - update
        beyond = out_of_range(numbers[:, : view.input_spec.size])
        return (residual * residual).sum() / (2 * variance) + _BORDER * beyond

    evaluation = task.way.vmap(task.way.grad_and_value(misfit))
    key = ("map", view.input_spec, training, clip)
    scales = (value.expand(len(units), -1) for value in (prior.shift, prior.scale))
    data = (
        *(variance, units.weights, units.update, units.known, units.client_weights),
        *(*scales, labels),
    )

    def bind(chosen: torch.Tensor) -> Evaluate:
        wide = widened(chosen)
        rows = tuple(tensor[wide] for tensor in data)
        by_class = Sorted.of(labels[chosen], prior.classes)
        run = traced(key, task, evaluation, (units.weights.new_zeros(len(wide), *shape), *rows))

        def evaluate(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            numbers = prior.records(z.reshape(-1, *shape), by_class)
            gradient, loss = run(filled(numbers, len(wide)), *rows)
            gradient = prior.pulled_back(gradient[: len(z)], by_class).reshape(z.shape)
            return loss[: len(z)] + 0.5 * (z * z).sum(1), gradient + z

        return StaticEvaluation(evaluate) if isinstance(run, Captured) else evaluate

    return bind
