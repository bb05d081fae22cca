"""The likeliest records: an update explained by records that look like public ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.func import grad_and_value, vmap

from trilemma.attacks.base import Reconstructions, public_records
from trilemma.attacks.evidence import labels_by_evidence
from trilemma.attacks.matching import Minima, Shared, Units, explained_update, minimise
from trilemma.attacks.matching.candidates import out_of_range, target_shape
from trilemma.attacks.priors import Prior, Sorted
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import traced

if TYPE_CHECKING:
    from trilemma.attacks.base import Rung, View
    from trilemma.attacks.matching.lbfgs import Evaluate

__all__ = ["MAP"]

_BORDER = 500.0  # weight of the value range beside the log density of the prior


@dataclass(frozen=True)
class MAP:
    """Maximum a posteriori under a Gaussian prior that public records taught.

    Labels by evidence, then x = m_c + L_c z minimises
    ‖known·(explained - observed)‖² / 2s² + ‖z‖² / 2 + 500 Σ (x - clamp x)². Where there is less
    noise than a level, s² falls from level to level, each from the last minimum.

    Messages of one training are matched together besides, with the record that they share as one
    unknown: each view's records are then followed by that one.

    The fields are the effort: levels of s², relative to the mean square of the observed
    coordinates, with the evaluations at each, for messages and for sums of clients; starts at
    most, of which more than one changes little; pairs of L-BFGS memory, and units evaluated at
    once; records of one training's rounds that are searched together, at most.
    """

    message_levels: tuple[tuple[float, int], ...] = ((1e-2, 150), (1e-4, 150), (1e-5, 300))
    sum_levels: tuple[tuple[float, int], ...] = ((1e-3, 300), (1e-5, 600))
    most_starts: int = 1
    history: int = 40
    slots: int = 64
    together: int = 64

    name: ClassVar[str] = "map"
    rung: ClassVar[Rung] = "public"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        if restarts < 1:
            raise InvalidInput(f"restarts must be at least 1, got {restarts}.")
        public = public_records(views, self.name)
        units = Units.of(views, "single")  # s² is never so small that double would tell more
        view = units.view
        prior = Prior.of(public, view).to(units.weights.dtype)
        labels = torch.zeros(
            len(units), view.records, dtype=torch.long, device=view.weights.device
        )
        if view.task.classes is not None:
            labels = labels_by_evidence(units, public, seed)
        with torch.no_grad():
            minima = self._search(units, prior, labels, min(restarts, self.most_starts), seed)
            found = self._reconstructions(units, prior, labels, minima)
            return self._followed(found, views, units, prior, labels, seed)

    def _search(
        self, units: Units, prior: Prior, labels: torch.Tensor, starts: int, seed: int
    ) -> Minima:
        sums = units.view.observation.clients > 1
        size = units.view.records * prior.size
        drawn = _normal("map", len(units), starts, size, seed).to(units.weights)
        points = (0.7 if sums else 0.5) * drawn
        never = torch.full_like(units.noise, -torch.inf)
        for variance, iterations in self._stages(units):
            minima = minimise(
                _bound(units, prior, labels, variance),
                points,
                never,
                solved=never,
                resolution=torch.full_like(units.noise, 1e-3),
                iterations=iterations,
                history=self.history,
                slots=self.slots,
            )
            points = minima.points[:, None]
        return minima

    def _stages(self, units: Units) -> list[tuple[torch.Tensor, int]]:
        """s² [U] and evaluations of each stage; levels below the noise of all units are one."""
        levels = self.sum_levels if units.view.observation.clients > 1 else self.message_levels
        mean_square = units.energy / units.known.sum(1).clamp(min=1)
        stages: list[tuple[torch.Tensor, int]] = []
        for level, iterations in levels:
            variance = torch.maximum(units.noise**2, level * mean_square)
            if not stages or bool((variance != stages[-1][0]).any()):
                stages.append((variance, iterations))
        return stages

    def _reconstructions(
        self, units: Units, prior: Prior, labels: torch.Tensor, minima: Minima
    ) -> Reconstructions:
        inputs, labels = _read(minima.points, units.view, prior, labels)
        failed = ~torch.isfinite(minima.loss)
        return Reconstructions(inputs, labels, minima.loss.to(inputs), failed)

    def _followed(
        self,
        found: Reconstructions,
        views: Sequence[View],
        units: Units,
        prior: Prior,
        labels: torch.Tensor,
        seed: int,
    ) -> Reconstructions:
        """The reconstructions, each followed by the record that its training's rounds share.

        A sum's records are too many to guess among; there, and in views that share none, a view's
        first record is repeated.
        """
        shared = None
        if units.view.observation.clients == 1:
            shared = Shared.of([each.training for each in views], labels, self.together)
        if shared is None or found.labels is None:
            return found
        records, rounds = units.view.records, shared.rows.shape[1]
        inputs, told = found.inputs[:, 0].clone(), found.labels[:, 0].clone()
        size = (1 + rounds * records) * prior.size
        points = 0.5 * _normal("map together", len(shared), 1, size, seed).to(units.weights)
        never = points.new_full((len(shared),), -torch.inf)
        for variance, iterations in self._stages(units):
            minima = minimise(
                shared.bind(_bound(units, prior, labels, variance), records),
                points,
                never,
                solved=never,
                resolution=torch.full_like(never, 1e-3),
                iterations=iterations,
                history=self.history,
                slots=max(1, self.slots // rounds),
            )
            points = minima.points[:, None]
        all_of_them = torch.arange(len(shared), device=points.device)
        first = shared.spread(minima.points, all_of_them, records)[:, 0].flatten(1)
        made = _read(first, units.view, prior, labels[shared.rows[:, 0]])
        for hypothesis in shared.best(minima.loss):
            row, slot = int(shared.rows[hypothesis, 0]), int(shared.slots[hypothesis, 0])
            own = [at for at, view in enumerate(views) if view.training == views[row].training]
            inputs[own], told[own] = (each[hypothesis, slot] for each in made)
        return replace(
            found,
            inputs=torch.cat((found.inputs, inputs[:, None]), 1),
            labels=torch.cat((found.labels, told[:, None]), 1),
        )


def _normal(name: str, units: int, starts: int, size: int, seed: int) -> torch.Tensor:
    """Standard normal [U, R, size], one stream a unit."""
    streams = (Seeded(seed).torch_generator(name, unit) for unit in range(units))
    drawn = [torch.randn(starts, size, generator=each, dtype=torch.float64) for each in streams]
    return torch.stack(drawn)


def _read(
    points: torch.Tensor, view: View, prior: Prior, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [A, n, *shape] and labels or targets [A, n, ...] at points [A, n·d]."""
    z = torch.nan_to_num(points).reshape(*labels.shape, prior.size)
    found, spec = prior.records(z, Sorted.of(labels, prior.classes)), view.input_spec
    dtype = view.observation.update.dtype
    if view.task.classes is None:
        targets = prior.shift + prior.scale * found[..., spec.size :]
        labels = targets.reshape(*targets.shape[:2], *target_shape(view)).to(dtype)
    return spec.settled(_inputs(found, view)).to(dtype), labels


def _inputs(numbers: torch.Tensor, view: View) -> torch.Tensor:
    """Inputs [..., *shape] of records as the prior counts them [..., d]."""
    spec = view.input_spec
    return spec.inputs(numbers[..., : spec.size].reshape(*numbers.shape[:-1], *spec.shape))


def _bound(
    units: Units, prior: Prior, labels: torch.Tensor, variance: torch.Tensor
) -> Callable[[torch.Tensor], Evaluate]:
    """What `minimise` binds: the negative log posterior of z [A, n·d] and its gradient."""
    view = units.view
    clip, training, task = view.observation.clip, view.local_training, view.task
    shape, told = (view.records, prior.size), target_shape(view)

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
            targets = targets.reshape(-1, *told)
        explained = explained_update(
            task, weights, _inputs(numbers, view), targets, training, client_weights, clip
        )
        residual = known * explained - update
        beyond = out_of_range(numbers[:, : view.input_spec.size])
        return (residual * residual).sum() / (2 * variance) + _BORDER * beyond

    evaluation = vmap(grad_and_value(misfit))
    key = ("map", view.input_spec, training, clip)
    scales = (each.expand(len(units), -1) for each in (prior.shift, prior.scale))
    data = (
        *(variance, units.weights, units.update, units.known, units.client_weights),
        *(*scales, labels),
    )

    def bind(chosen: torch.Tensor) -> Evaluate:
        rows = tuple(tensor[chosen] for tensor in data)
        by_class = Sorted.of(rows[-1], prior.classes)
        run = traced(key, task, evaluation, (units.weights.new_zeros(len(chosen), *shape), *rows))

        def evaluate(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            numbers = prior.records(z.reshape(-1, *shape), by_class)
            gradient, loss = run(numbers, *rows)
            slope = prior.pulled_back(gradient, by_class).reshape(z.shape)
            return loss + 0.5 * (z * z).sum(1), slope + z

        return evaluate

    return bind
