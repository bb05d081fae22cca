"""Searching for records: L-BFGS over many units, random starts, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks.base import Reconstructions
from trilemma.attacks.matching.lbfgs import Evaluate, StaticEvaluation, minimise
from trilemma.attacks.matching.matching_loss import squared_distance
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import traced
from trilemma.learning.recording.capturing import Captured

if TYPE_CHECKING:
    from trilemma.attacks.matching.record_vectors import Candidates
    from trilemma.attacks.matching.view_tensors import ViewTensors
    from trilemma.learning import Task

__all__ = ["evaluations", "filled", "invert", "random_starts", "reconstructions", "widened"]

# Of what inputs beyond their range cost: of 96 unprotected digits all are found, with 1 only 85;
# of 96 sums 12, with 1 only 4. Under noise it makes no difference.
_BORDER: Final = 0.1


def widened(chosen: torch.Tensor) -> torch.Tensor:
    """ViewTensors [A], filled up with the first to the next width: 1 ... 8, 10, 12, 14, 16, 20 ...

    Functions are recorded for each number of units that they are called with, which takes as long
    as tens of replays of a small model: few widths do for many.

    >>> widened(torch.arange(9)).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    """
    count = len(chosen)
    step = max(1, 2 ** ((count - 1).bit_length() - 3))
    width = -(-count // step) * step
    return torch.cat((chosen, chosen[:1].expand(width - count)))


def filled(rows: torch.Tensor, width: int) -> torch.Tensor:
    """Rows [A, ...] with zeros behind them, [width, ...]."""
    if len(rows) == width:
        return rows
    return torch.cat((rows, rows.new_zeros(width - len(rows), *rows.shape[1:])))


def evaluations(
    key: tuple[object, ...],
    task: Task,
    value: Callable[..., torch.Tensor],
    data: tuple[torch.Tensor, ...],
    starts: torch.Tensor,
) -> Callable[[torch.Tensor], Evaluate]:
    """What `minimise` binds: `value(z [d], *rows)` and its gradient for any choice of units.

    `data` are tensors [U, ...], of which each unit gets its rows, like its `starts` [U, R, d];
    `key` names the function.
    """
    evaluation = task.way.vmap(task.way.grad_and_value(value))
    bound: dict[int, tuple[tuple[torch.Tensor, ...], Evaluate]] = {}

    def bind(chosen: torch.Tensor) -> Evaluate:
        wide = widened(chosen)
        if len(chosen) in bound:  # other units in the places of those
            rows, evaluate = bound[len(chosen)]
            for own, tensor in zip(rows, data, strict=True):
                own.copy_(tensor[wide])
            return evaluate
        rows = tuple(tensor[wide] for tensor in data)
        run = traced(key, task, evaluation, (starts[wide, 0], *rows))

        def evaluated(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            gradient, loss = run(filled(z, len(wide)), *rows)
            return loss[: len(z)], gradient[: len(z)]

        evaluate = StaticEvaluation(evaluated) if isinstance(run, Captured) else evaluated
        bound[len(chosen)] = rows, evaluate
        return evaluate

    return bind


def invert(
    units: ViewTensors,
    candidates: Candidates,
    starts: torch.Tensor,
    labels: torch.Tensor | None,
    *,
    iterations: int,
    further: int,
    history: int,
    slots: int,
    tolerance: float,
) -> Reconstructions:
    """L-BFGS from `starts` [U, R, d]; the best restart, by its loss, goes on for `further` more.

    The loss of a unit is ‖known·(explained - observed)‖² / ‖observed‖² + .1 Σ (x - clamp x)², x
    in units of the range; a unit ends below `tolerance`. Noise is no reason to stop: among all
    inputs that explain a noisy update equally well, the true ones lie in the range. `labels`
    [U, S] are given where they are not unknowns. Counts of iterations are of evaluations.
    """
    view = units.view
    distance = squared_distance(candidates, view)
    if labels is None:
        labels = torch.zeros(len(units), 0, dtype=torch.long, device=starts.device)
    energy = units.energy

    def value(z: torch.Tensor, scale: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
        # relative to the observed update: steps and tolerances then mean the same for any model
        return distance(z, *arguments) / scale + _BORDER * candidates.beyond(z)

    key = ("invert", candidates, view.local_training, view.observation.clip)
    data = (energy, units.weights, units.update, units.known, units.client_weights, labels)
    enough = torch.full_like(energy, tolerance)
    search = partial(
        minimise,
        evaluations(key, view.task, value, data, starts),
        tolerance=enough,
        solved=enough,
        # A gain of s² makes the candidate as much likelier as chance does: going on fits the noise
        # (of 128 digits under variance 0.01 15 are found, with a hundredth of it 12).
        resolution=(1.0 if view.observation.clients > 1 else 0.1) * units.noise**2 / energy,
        history=history,
        slots=units.at_once(slots),
    )
    with torch.no_grad():
        minima = search(starts, iterations=iterations)
        if further:
            minima = search(minima.points[:, None], iterations=further)
    return reconstructions(units, candidates, minima.points, minima.loss * energy, labels)


def reconstructions(
    units: ViewTensors,
    candidates: Candidates,
    points: torch.Tensor,
    loss: torch.Tensor,
    labels: torch.Tensor,
) -> Reconstructions:
    """Read records off the chosen points [U, d]; a unit without a finite loss has failed."""
    spec = candidates.spec
    failed = ~torch.isfinite(loss)
    inputs = spec.settled(torch.nan_to_num(candidates.inputs(points)))
    if candidates.joint:
        labels = candidates.targets(points)
        if candidates.classes is not None:
            labels = labels.argmax(-1)
    dtype = units.view.observation.update.dtype
    if labels.is_floating_point():
        labels = labels.to(dtype)
    return Reconstructions(inputs.to(dtype), labels, loss.to(dtype), failed)


def random_starts(
    units: ViewTensors, candidates: Candidates, name: str, restarts: int, seed: int
) -> torch.Tensor:
    """Standard normal starts [U, R, d], one stream a unit's number and restart."""
    if restarts < 1:
        raise InvalidInput(f"restarts must be at least 1, got {restarts}.")
    like = units.weights
    streams = Seeded(seed)
    starts = [
        [
            torch.randn(
                candidates.size,
                generator=streams.torch_generator(name, *number, restart),
                dtype=torch.float64,
            )
            for restart in range(restarts)
        ]
        for number in units.numbers
    ]
    return torch.stack([torch.stack(row) for row in starts]).to(like)
