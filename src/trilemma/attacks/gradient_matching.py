"""The batched engine: candidates for many units at once, judged by how well they explain updates.

A candidate (inputs, labels) of S·K records is explained by the update that K clients would have
sent for it, computed by the very function that the federation runs; the matching loss is the
squared distance to what was observed, on the known coordinates only.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch.func import grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.attacks.base import Reconstructions, View, common_view
from trilemma.attacks.lbfgs import minimise
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from trilemma.observations import Observation

__all__ = [
    "Candidates",
    "Precision",
    "Units",
    "explained_update",
    "invert",
    "random_starts",
    "reconstructions",
    "squared_distance",
    "traced",
]

Precision = Literal["auto", "single", "double"]


def explained_update(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    local_training: LocalTraining,
    client_weights: torch.Tensor,
    clip: float | None,
) -> torch.Tensor:
    """Σ_k client_weights_k · clip(update of client k): what K clients send for [K·S] records.

    `client_weights` [K] or [K, m]; `clip` scales an update u by min(1, clip / ‖u‖). Returns [m].
    """
    size = local_training.unit_size
    total = torch.zeros_like(weights)
    for client in range(client_weights.shape[0]):
        rows = slice(client * size, (client + 1) * size)
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
            update = client_update(task, weights, inputs[rows], targets[rows], local_training)
        if clip is not None:
            norm = torch.sqrt((update * update).sum() + torch.finfo(update.dtype).tiny)
            update = update * torch.clamp(clip / norm, max=1.0)
        total = total + client_weights[client] * update
    return total


@dataclass(frozen=True, eq=False)
class Units:
    """The views of one call as tensors, in the working precision.

    weights [U, m]; update [U, m] and known [U, m], both zero where a coordinate was not read;
    client_weights [U, K], or [U, K, m] where clients sent coordinates of their own; noise [U], the
    standard deviation on each known coordinate.
    """

    view: View
    weights: torch.Tensor
    update: torch.Tensor
    known: torch.Tensor
    client_weights: torch.Tensor
    noise: torch.Tensor

    @classmethod
    def of(cls, views: Sequence[View], precision: Precision) -> Units:
        view = common_view(views)
        noisy = any(v.observation.noise is not None and v.observation.noise.scale for v in views)
        double = precision == "double" or (precision == "auto" and noisy)
        dtype = torch.float64 if double else torch.float32
        observations = [v.observation for v in views]
        known = torch.stack(
            [
                torch.ones_like(o.update, dtype=torch.bool) if o.known is None else o.known
                for o in observations
            ]
        )
        update = torch.stack([o.update for o in observations]).to(dtype)
        return cls(
            view,
            torch.stack([v.weights for v in views]).to(dtype),
            torch.where(known, update, 0.0),
            known.to(dtype),
            torch.stack(_client_weights(observations, update)),
            update.new_tensor([_deviation(v) for v in views]),
        )

    def __len__(self) -> int:
        return self.weights.shape[0]

    @property
    def masked(self) -> bool:
        """Whether coordinates are missing."""
        return not bool(self.known.all())

    def noise_floor(self, unknowns: int) -> torch.Tensor:
        """Matching loss [U] that a perfect candidate is likely to have, s²(n - d + √(2n)).

        n known coordinates, d fitted unknowns: the residual is s² times a chi-square with n - d
        degrees of freedom, and the floor lies about one standard deviation above its mean.
        """
        n = self.known.sum(1)
        freedom = (n - unknowns).clamp(min=0)
        return self.noise**2 * (freedom + torch.sqrt(2 * freedom))


def _client_weights(observations: Sequence[Observation], like: torch.Tensor) -> list[torch.Tensor]:
    """Each unit's [K], or [K, m] for all where one unit has a row for each client."""
    made = []
    for each in observations:
        weights = each.weights
        if not isinstance(weights, torch.Tensor):
            weights = like.new_tensor(weights or (1.0 / each.clients,) * each.clients)
        made.append(weights.to(like))
    if any(each.ndim == 2 for each in made):
        made = [w if w.ndim == 2 else w[:, None].expand(-1, like.shape[1]) for w in made]
    return made


def _deviation(view: View) -> float:
    noise = view.observation.noise
    if noise is None:
        return 0.0
    return noise.scale if noise.kind == "gaussian" else noise.scale / 3**0.5


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
        spec = view.input_spec
        shape: tuple[int, ...] = ()
        if view.task.classes is None:
            with torch.no_grad():
                probe = torch.full((1, *spec.shape), (spec.low + spec.high) / 2).to(view.weights)
                shape = tuple(view.task.outputs(view.weights, probe).shape[1:])
        return cls(spec, view.records, view.task.classes, joint, shape)

    @property
    def pixels(self) -> int:
        return self.records * self.spec.size

    @property
    def unknowns(self) -> int:
        """Degrees of freedom: a label on its simplex has classes - 1."""
        if not self.joint:
            return self.pixels
        per_label = _size(self.target_shape) if self.classes is None else self.classes - 1
        return self.pixels + self.records * per_label

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


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def squared_distance(candidates: Candidates, view: View) -> Callable[..., torch.Tensor]:
    """Σ_known (explained update - observed update)², one unit: a function torch.func can map.

    Arguments: z [d], weights [m], update [m], known [m], client_weights [K] or [K, m], labels [S].
    """
    clip, training, task = view.observation.clip, view.local_training, view.task

    def distance(
        z: torch.Tensor,
        weights: torch.Tensor,
        update: torch.Tensor,
        known: torch.Tensor,
        client_weights: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        targets = candidates.targets(z) if candidates.joint else labels
        explained = explained_update(
            task, weights, candidates.inputs(z), targets, training, client_weights, clip
        )
        residual = known * explained - update
        return (residual * residual).sum()

    return distance


Evaluation = Callable[..., tuple[torch.Tensor, torch.Tensor]]
_TRACES: OrderedDict[tuple[object, ...], tuple[Task, Evaluation]] = OrderedDict()
_KEPT_TRACES = 24


def traced(
    key: tuple[object, ...], task: Task, function: Evaluation, example: tuple[torch.Tensor, ...]
) -> Evaluation:
    """`function` recorded once as a flat list of tensor operations for the example's shapes.

    Replaying the list skips torch.func's bookkeeping, which is half of the time of a small
    model. Traces are kept by `key`, the shapes and the state of all that a trace takes as
    constant: the model's buffers, frozen parameters and modes.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    model = task.model
    constants = [*model.buffers(), *(p for p in model.parameters() if not p.requires_grad)]
    state = tuple((constant.data_ptr(), constant._version) for constant in constants)
    modes = tuple(module.training for module in model.modules())
    shapes = tuple((tuple(t.shape), t.dtype, t.device) for t in example)
    full_key = (*key, id(task), state, modes, shapes)
    if full_key in _TRACES:
        _TRACES.move_to_end(full_key)
        return _TRACES[full_key][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # make_fx touches deprecated corners of torch itself
        graph = make_fx(function)(*example)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    _TRACES[full_key] = task, graph  # holding the task keeps its id from being reused
    if len(_TRACES) > _KEPT_TRACES:
        _TRACES.popitem(last=False)
    return graph


def invert(
    units: Units,
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
    """L-BFGS on the matching loss from `starts` [U, R, d]; the best restart by matching loss.

    That one goes on for `further` evaluations. A unit ends when its loss is below `tolerance`
    times the observed update's squared norm, or below what the noise explains; `labels` [U, S]
    are given where they are not unknowns.
    """
    view = units.view
    distance = squared_distance(candidates, view)
    if labels is None:
        labels = torch.zeros(len(units), 0, dtype=torch.long, device=starts.device)
    energy = (units.update**2).sum(1).clamp(min=torch.finfo(starts.dtype).tiny)
    data = (units.weights, units.update, units.known, units.client_weights, labels)

    def value(z: torch.Tensor, scale: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
        # relative to the observed update: steps and tolerances then mean the same for any model
        return distance(z, *arguments) / scale

    evaluation = vmap(grad_and_value(value))
    key = ("invert", candidates, view.local_training, view.observation.clip)

    def bind(chosen: torch.Tensor) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
        rows = tuple(tensor[chosen] for tensor in (energy, *data))
        run = traced(key, view.task, evaluation, (starts[chosen, 0], *rows))

        def evaluate(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            gradient, loss = run(z, *rows)
            return loss, gradient

        return evaluate

    floor = units.noise_floor(candidates.unknowns) / energy
    search = partial(
        minimise,
        bind,
        tolerance=torch.full_like(floor, tolerance),
        solved=torch.clamp(floor, min=tolerance),
        # under noise, a gain far below s² moves the candidate by far less than its error
        resolution=0.01 * units.noise**2 / energy,
        history=history,
        slots=slots,
    )
    with torch.no_grad():
        minima = search(starts, iterations=iterations)
        if further:
            minima = search(minima.points[:, None], iterations=further)
    return reconstructions(units, candidates, minima.points, minima.loss * energy, labels)


def reconstructions(
    units: Units,
    candidates: Candidates,
    points: torch.Tensor,
    loss: torch.Tensor,
    labels: torch.Tensor,
) -> Reconstructions:
    """Read records off the chosen points [U, d]; a unit without a finite loss has failed."""
    spec = candidates.spec
    failed = ~torch.isfinite(loss)
    inputs = torch.nan_to_num(candidates.inputs(points)).clamp(spec.low, spec.high)
    if candidates.joint:
        labels = candidates.targets(points)
        if candidates.classes is not None:
            labels = labels.argmax(-1)
    dtype = units.view.observation.update.dtype
    if labels.is_floating_point():
        labels = labels.to(dtype)
    return Reconstructions(inputs.to(dtype), labels, loss.to(dtype), failed)


def random_starts(
    units: Units, candidates: Candidates, name: str, restarts: int, seed: int
) -> torch.Tensor:
    """Standard normal starts [U, R, d], one stream a unit and restart."""
    if restarts < 1:
        raise InvalidInput(f"restarts must be at least 1, got {restarts}.")
    like = units.weights
    streams = Seeded(seed)
    starts = [
        [
            torch.randn(
                candidates.size,
                generator=streams.torch_generator(name, unit, restart),
                dtype=torch.float64,
            )
            for restart in range(restarts)
        ]
        for unit in range(len(units))
    ]
    return torch.stack([torch.stack(row) for row in starts]).to(like)
