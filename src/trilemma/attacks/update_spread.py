"""How single records' updates are spread at the attacked weights, class by class.

The updates of public records are seen along the few directions that tell classes apart: for
Gaussians of one covariance Σ these are Σ⁻¹(m_c - m), and nothing is lost; where covariances
differ, no more directions changed the inferred labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.attacks.labels import last_linear, tensor_slices
from trilemma.attacks.matching import explained_update
from trilemma.attacks.priors import shrinkage
from trilemma.entropy import Seeded
from trilemma.learning import LocalTraining, client_update

if TYPE_CHECKING:
    from trilemma.attacks.matching import ViewTensors
    from trilemma.records.records import Records

__all__ = [
    "Sample",
    "Shares",
    "Spread",
    "linear_scale",
    "record_spread",
    "record_updates",
    "telling_directions",
]

_RECORDS: Final = 300  # public records used, at least 10 of each class
_RELABELLED: Final = 64  # records that stand in for a class of which none is public
_PLACES: Final = 20_000  # coordinates of a model up to which all of a masked update are seen
_KEPT: Final = 512  # of them, those that tell classes apart best
_DIRECTIONS: Final = 128
_SIMULATED: Final = 16  # clients, for the scale of local steps and of clipping
_NUMBERS: Final = 2**25  # held at once
_RIDGE: Final = 0.02  # of its diagonal, added to a covariance


@dataclass(frozen=True, eq=False)
class Spread:
    """One record's part in the observation, along r directions, for A units.

    mean [A, G, C, r] and covariance [A, G, C, r, r] for a record of class c in group g; observed
    [A, r] and the variance [A] of its noise; `size` records a group. A group is a client, or all
    of them where they weigh the same.
    """

    mean: torch.Tensor
    covariance: torch.Tensor
    observed: torch.Tensor
    variance: torch.Tensor
    size: int

    @property
    def groups(self) -> int:
        return self.mean.shape[1]

    @property
    def classes(self) -> int:
        return self.mean.shape[2]

    def split(self, units: int) -> Iterator[Spread]:
        """The same for `units` units at a time."""
        tensors = (self.mean, self.covariance, self.observed, self.variance)
        parts = zip(*(torch.split(tensor, units) for tensor in tensors), strict=True)
        return (Spread(a, b, c, d, self.size) for a, b, c, d in parts)

    def even(self) -> torch.Tensor:
        """Counts [A, G, C] as equal as can be."""
        classes = torch.arange(self.classes, device=self.observed.device)
        counts = self.size // self.classes + (classes < self.size % self.classes).long()
        return counts.expand(len(self.observed), self.groups, -1).clone()


def record_spread(units: ViewTensors, public: Records, seed: int) -> Iterator[Spread]:
    """The spread for a few units at a time, in their order."""
    classes = units.view.task.classes or 1
    inputs, labels = _per_class(public, classes)
    sample = Sample.of(units, inputs.to(units.weights), labels.to(units.weights.device), seed)
    clients = units.client_weights.shape[1]
    cells = clients * classes * min(_DIRECTIONS, clients * (classes - 1)) ** 2
    rows = max(1, _NUMBERS // max(cells, len(labels) * max(len(sample.places), 2 * _KEPT)))
    for chosen in torch.split(torch.arange(len(units), device=sample.labels.device), rows):
        yield _spread(units, chosen, sample)


def _per_class(public: Records, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Up to the same number of records of each class; others', relabelled, where it has none."""
    rows, labels = [], []
    for label in range(classes):
        own = torch.nonzero(public.labels == label)[:, 0][: max(10, _RECORDS // classes)]
        if not len(own):
            step = max(1, len(public) // _RELABELLED)
            own = torch.arange(0, len(public), step, device=public.labels.device)[:_RELABELLED]
        rows.append(own)
        labels.append(torch.full_like(own, label))
    return public.inputs[torch.cat(rows)], torch.cat(labels)


@dataclass(frozen=True, eq=False)
class Sample:
    """Public records [P] with their labels, and the coordinates `places` [D] looked at."""

    inputs: torch.Tensor
    labels: torch.Tensor
    names: tuple[str, ...]
    places: torch.Tensor
    seed: int

    @classmethod
    def of(
        cls, units: ViewTensors, inputs: torch.Tensor, labels: torch.Tensor, seed: int
    ) -> Sample:
        """The last layer is looked at, or all layers where it is not all read.

        Of a large model without a last linear layer, as many tensors from its end as fit.
        """
        slices = tensor_slices(units.view.task)
        everything = torch.arange(units.weights.shape[1], device=labels.device)

        def places(names: tuple[str, ...]) -> torch.Tensor:
            return torch.cat([everything[slices[name]] for name in names])

        names, last = tuple(slices), last_linear(units.view.task)
        if last is not None:
            own = tuple(name for name in names if slices[name] in last)
            if len(everything) > _PLACES or bool(units.known[:, places(own)].all()):
                return cls(inputs, labels, own, places(own), seed)
        while len(names) > 1 and len(places(names)) > _PLACES:
            names = names[1:]
        return cls(inputs, labels, names, places(names), seed)


@dataclass(frozen=True, eq=False)
class Shares:
    """How much of a record's update the observation holds: scalars [A, G] times rows [A, B, D].

    B = 1 row of ones where each client has one weight, else B = G rows, one a client. `size`
    records a group.
    """

    scalars: torch.Tensor
    rows: torch.Tensor
    size: int

    @classmethod
    def of(cls, units: ViewTensors, chosen: torch.Tensor, places: torch.Tensor) -> Shares:
        weights, size = units.client_weights[chosen], units.view.local_training.unit_size
        if weights.ndim == 3:
            rows = weights[:, :, places]
            return cls(torch.ones_like(rows[:, :, 0]), rows, size)
        everyone = units.client_weights
        if bool((everyone == everyone[:, :1]).all()):  # then it does not matter whose a record is
            weights, size = weights[:, :1], weights.shape[1] * size
        return cls(weights, weights.new_ones(len(weights), 1, len(places)), size)

    @property
    def energy(self) -> torch.Tensor:
        """Σ over groups of the squared scalars [A], of those that share a row."""
        return (self.scalars**2).sum(1) / self.rows.shape[1]

    def at(self, kept: torch.Tensor) -> Shares:
        """The same at the coordinates kept [A, E]."""
        return Shares(self.scalars, _gather(self.rows, kept), self.size)


def _spread(units: ViewTensors, chosen: torch.Tensor, sample: Sample) -> Spread:
    labels, places = sample.labels, sample.places
    updates = record_updates(units, chosen, sample)
    scale, misfit = linear_scale(units, chosen, sample, updates)
    shares = Shares.of(units, chosen, places)
    noise = units.noise[chosen] ** 2 + misfit * (shares.rows**2).mean(2).sum(1) * shares.energy
    known = units.known[chosen][:, places]
    kept = _telling(updates, labels, known, shares, noise)
    updates, shares, known = _gather(updates, kept), shares.at(kept), known.gather(1, kept)
    updates = updates * (scale[:, None] * known / units.view.local_training.unit_size)[:, None]
    basis = telling_directions(updates, labels, shares, noise)

    seen = torch.einsum("apd,abd,adr->abpr", updates, shares.rows, basis).double()
    mean, covariance = _moments(seen, labels)
    scalars = shares.scalars[:, :, None, None].double()
    mean, covariance = scalars * mean, scalars[..., None] ** 2 * covariance
    floor = 1e-9 * covariance.diagonal(dim1=3, dim2=4).mean((1, 2, 3))
    variance = (noise.double() + floor).clamp(min=torch.finfo(torch.float64).tiny)
    observed = units.update[chosen][:, places].gather(1, kept)
    observed = torch.einsum("ad,adr->ar", observed, basis).double()
    return Spread(mean, covariance, observed, variance, shares.size)


def record_updates(units: ViewTensors, chosen: torch.Tensor, sample: Sample) -> torch.Tensor:
    """Gradients [A, P, D] of single records at the places, clipped where records are."""
    task, clip = units.view.task, units.view.local_training.record_clip

    def clipped(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        single = LocalTraining(record_clip=clip)
        return client_update(task, weights, x[None], y[None], single)[sample.places]

    def part(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        tensors = task.layout.unflatten(weights)

        def loss(own: dict[str, torch.Tensor]) -> torch.Tensor:
            outputs = task.run({**tensors, **own}, x[None])
            return task.loss_of(outputs, y[None])

        with sdpa_kernel(SDPBackend.MATH):
            gradients = task.way.grad(loss)({name: tensors[name] for name in sample.names})
        return torch.cat([gradients[name].reshape(-1) for name in sample.names])

    single = task.way.vmap(part if clip is None else clipped, (None, 0, 0))
    models = task.way.vmap(single, (0, None, None))
    updates: torch.Tensor = models(units.weights[chosen], sample.inputs, sample.labels)
    return updates


def linear_scale(
    units: ViewTensors, chosen: torch.Tensor, sample: Sample, updates: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """a [A] with update ≈ a · mean of its records' gradients, and the mean squared misfit [A].

    1 and 0 for plain gradients; least squares over simulated clients for local steps and clipping.
    """
    view = units.view
    training, clip = view.local_training, view.observation.clip
    one = units.noise.new_ones(len(chosen))
    if training.algorithm == "fedsgd" and clip is None:
        return one, torch.zeros_like(one)
    generator = Seeded(sample.seed).torch_generator("simulated clients")
    shape = (_SIMULATED, training.unit_size)
    rows = torch.randint(0, len(sample.labels), shape, generator=generator)
    rows = rows.to(sample.labels.device)

    def sent(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        lone = weights.new_ones(1)
        return explained_update(view.task, weights, x, y, training, lone, clip)[sample.places]

    way = view.task.way
    clients = way.vmap(way.vmap(sent, (None, 0, 0)), (0, None, None))
    true = clients(units.weights[chosen], sample.inputs[rows], sample.labels[rows])
    linear = updates[:, rows].mean(2)
    energy = (linear**2).sum((1, 2)).clamp(min=torch.finfo(linear.dtype).tiny)
    scale = (true * linear).sum((1, 2)) / energy
    return scale, ((true - scale[:, None, None] * linear) ** 2).mean((1, 2))


def _telling(
    updates: torch.Tensor,
    labels: torch.Tensor,
    known: torch.Tensor,
    shares: Shares,
    noise: torch.Tensor,
) -> torch.Tensor:
    """The coordinates [A, E] at which classes differ most, against their spread and the noise."""
    most = int(known.sum(1).max())
    if most <= _KEPT:
        return known.topk(max(1, most), 1).indices
    means = _class_means(updates, labels)
    members = torch.bincount(labels) / len(labels)
    within = (updates**2).mean(1) - (members[:, None] * means**2).sum(1)
    power = shares.size * shares.energy[:, None] * (shares.rows**2).sum(1)
    tiny = torch.finfo(updates.dtype).tiny
    ratio = power * means.var(1, correction=0) / (power * within + noise[:, None] + tiny)
    return (known * ratio).topk(_KEPT, 1).indices


def telling_directions(
    updates: torch.Tensor, labels: torch.Tensor, shares: Shares, noise: torch.Tensor
) -> torch.Tensor:
    """Orthonormal columns [A, D, r] that span Σ⁻¹(m_c - m) for each row of shares.

    Σ = Σ_records share share^T ∘ W + s² I is the covariance of the observation, W that of single
    updates within their class.
    """
    means = _class_means(updates, labels)
    apart = (updates - means[:, labels]) / updates.shape[1] ** 0.5
    within = apart.transpose(1, 2) @ apart
    within = within * (shares.rows.transpose(1, 2) @ shares.rows)
    within = shares.size * shares.energy[:, None, None] * within
    diagonal = within.diagonal(dim1=1, dim2=2)
    floor = 1e-6 * diagonal.mean(1) + torch.finfo(noise.dtype).tiny
    diagonal.add_(_RIDGE * diagonal + (noise + floor)[:, None])
    sought = (means - means.mean(1, keepdim=True))[:, None, :-1] * shares.rows[:, :, None]
    columns = sought.flatten(1, 2).transpose(1, 2)
    found = torch.cholesky_solve(columns, torch.linalg.cholesky(within))
    found = found / found.norm(dim=1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
    directions: torch.Tensor = torch.linalg.svd(found, full_matrices=False).U
    return directions[..., :_DIRECTIONS]


def _moments(seen: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Means [A, B, C, r] and covariances [A, B, C, r, r] of the classes in seen [A, B, P, r].

    A class of few records borrows from the covariance within all classes.
    """
    units, rows, _, size = seen.shape
    flat = seen.flatten(0, 1)
    means = _class_means(flat, labels)
    apart = flat - means[:, labels]
    classes = means.shape[1]
    within = apart.transpose(1, 2) @ apart / max(1, len(labels) - classes)
    made = []
    for label in range(classes):
        own = apart[:, labels == label]
        count = own.shape[1]
        keep = shrinkage(count)
        spread = own.transpose(1, 2) @ own / max(1, count - 1)
        made.append((1 - keep) * spread + keep * within)
    covariance = torch.stack(made, 1)
    diagonal = covariance.diagonal(dim1=2, dim2=3)
    diagonal.add_(_RIDGE * diagonal)
    return (
        means.reshape(units, rows, classes, size),
        covariance.reshape(units, rows, classes, size, size),
    )


def _class_means(updates: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Means [A, C, D] of updates [A, P, D]; every class is there."""
    members = torch.nn.functional.one_hot(labels).to(updates)
    return (members / members.sum(0)).T @ updates


def _gather(tensor: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The coordinates kept [A, E] of each row of a tensor [A, n, D]."""
    return tensor.gather(2, kept[:, None].expand(-1, tensor.shape[1], -1))
