"""Linkage: the record that a training's messages share, the others of each integrated out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Final

import torch
from torch.nn.functional import one_hot

from trilemma.attacks.base import Reconstructions, public_records
from trilemma.attacks.linkage.marginal_likelihood import Rest, layers_of
from trilemma.attacks.linkage.noiseless_values import Reading, readings
from trilemma.attacks.matching import ViewTensors, minimise
from trilemma.attacks.matching.record_vectors import target_shape
from trilemma.attacks.posterior.posterior_inputs import Batch
from trilemma.attacks.priors import Prior, Sorted
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning.precision import LARGE

if TYPE_CHECKING:
    from trilemma.attacks.base import KnowledgeLevel, View
    from trilemma.attacks.matching.lbfgs import Evaluate
    from trilemma.learning import Task

__all__ = ["Linkage"]

_BORDER: Final = 50.0  # weight of the value range beside the log density
_HELD: Final = 2**25  # numbers of the rows of messages looked at together
_MOST: Final = 2**29  # of one training, which cannot be taken apart: 9 GB with all that is made


@dataclass(frozen=True)
class Linkage:
    """The likeliest record x behind all messages that hold it, under a prior that was learnt.

    x = m_c + L_c z maximises Σ_rounds log p(G | x) - ‖z‖² / 2 - 50 Σ (x - clamp x)², the rest of
    each message integrated out (`rest`). The class c is the one whose public records are the
    likeliest on average. A message that shares its record with no other is looked at alone. What
    single values say that have no noise is added (`readings`).

    The fields are the effort: the least variance that noise is taken to have, relative to the mean
    square of the observed coordinates (less changes no guess); evaluations of a search, and pairs
    of L-BFGS memory; messages of one training that are read, evenly spread where it has more, and
    fewer where the public records' updates for each would not fit into memory; and public records
    that teach the distribution of the rest, drawn where there are more: its time grows with their
    cube. The prior is learnt from all.
    """

    level: float = 1e-3
    evaluations: int = 20
    history: int = 20
    messages: int = 48
    population: int = 400

    name: ClassVar[str] = "linkage"
    knows: ClassVar[KnowledgeLevel] = "public"
    links: ClassVar[bool] = True

    @staticmethod
    def applies(task: Task) -> bool:
        """Whether the updates of all public records that it learns from fit into memory."""
        return task.layout.size <= LARGE

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        if restarts < 1:
            raise InvalidInput(f"restarts must be at least 1, got {restarts}.")
        public = public_records(views, self.name)
        if not self.applies(views[0].task):
            raise InvalidInput(
                f"the attack {self.name!r} holds whole updates of many records at once, too much "
                f"for the {views[0].task.layout.size:,} parameters of this model; attack with "
                f"'map' or 'gaussian-posterior'."
            )
        prior = Prior.of(public, views[0]).to(torch.float32)
        order = torch.randperm(len(public), generator=Seeded(0).torch_generator("the rest's law"))
        taught = public[order[: self.population].sort().values.to(public.labels.device)]
        trainings = _trainings(views)
        found, said = [], dict[int, Reading | None]()
        with torch.no_grad():
            population = Batch(taught.inputs, taught.labels, True).to(prior.mean)
            layers = layers_of(views, population)
            numbers = views[0].weights.numel() if layers is None else 2 * population.count
            # The same on every machine: what is read decides what is found.
            most = max(1, min(self.messages, _MOST // (population.count * numbers)))
            read = [_spread(own, most) for own in trainings]
            # Products of factors are large, and what is left when they are centred is small.
            precise = prior if layers is None else prior.to(torch.float64)
            for some in _together(read, _HELD // (population.count * numbers)):
                # what several trainings share, such as those that go on, is learnt once
                seen = {id(view.observation): view for own in some for view in own}
                units = ViewTensors.of(list(seen.values()), "single")
                exact = units if layers is None else ViewTensors.of(list(seen.values()), "double")
                training, message = _owners(some, list(seen)).to(units.weights.device)
                search = _Search(
                    *(self, exact, population.to(precise.mean), precise, layers),
                    *(training, message, seed),
                )
                found.append(search.run())
                said.update(zip(seen, readings(units, population, prior), strict=True))
        held = torch.tensor([at for at, own in enumerate(trainings) for _ in own])
        inputs, labels, guesses, loss = (
            torch.cat(group)[held.to(group[0].device)] for group in zip(*found, strict=True)
        )
        return Reconstructions(
            *(inputs, labels, loss, ~torch.isfinite(loss)),
            guesses=guesses,
            readings=[said.get(id(view.observation)) for view in views],
        )


def _trainings(views: Sequence[View]) -> list[list[View]]:
    """The views of each training, neighbours in their order; a view of none is alone."""
    names = [("alone", at) if v.training is None else v.training for at, v in enumerate(views)]
    places = groupby(range(len(views)), key=names.__getitem__)
    return [[views[at] for at in own] for _, own in places]


def _spread(views: list[View], most: int) -> list[View]:
    """At most so many of them, the first and the last among them."""
    places = torch.linspace(0, len(views) - 1, min(most, len(views)), dtype=torch.float64)
    return [views[at] for at in places.round().int().tolist()]


def _together(trainings: list[list[View]], most: int) -> Iterator[list[list[View]]]:
    """Some whole trainings at a time, of at most so many views or one by one."""
    chosen: list[list[View]] = []
    for own in trainings:
        if chosen and sum(map(len, chosen)) + len(own) > most:
            yield chosen
            chosen = []
        chosen = [*chosen, own]
    yield chosen


def _owners(trainings: list[list[View]], observations: list[int]) -> torch.Tensor:
    """Of each view its training and, by the observation's id, its message [2, V]."""
    places = {name: place for place, name in enumerate(observations)}
    rows = [(at, places[id(view.observation)]) for at, own in enumerate(trainings) for view in own]
    return torch.tensor(rows).T


@dataclass(frozen=True, eq=False)
class _Search:
    """V messages of T trainings: `training` [V] says whose, `message` [V] which of the units."""

    effort: Linkage
    units: ViewTensors
    population: Batch
    prior: Prior
    layers: tuple[str, ...] | None
    training: torch.Tensor
    message: torch.Tensor
    seed: int

    def run(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The record [T, 1, *shape] of each training, its label or target, the guess, the loss."""
        view, prior = self.units.view, self.prior
        points = self.units.weights.new_zeros(int(self.training[-1]) + 1, 1, prior.size)
        never = torch.full_like(points[:, 0, 0], -torch.inf)
        variance = self.units.variance(self.effort.level)
        distribution, seen = Rest.of(self.units, variance, self.population, self.seed, self.layers)
        labels = self._classes(self._added(seen[self.message]))
        if len(self.units) < len(self.message):
            distribution = distribution.at(self.message)
        minima = minimise(
            self._bound(distribution, labels),
            points,
            never,
            solved=never,
            resolution=torch.full_like(never, 1e-3),
            iterations=self.effort.evaluations,
            history=self.effort.history,
            slots=len(points),
        )
        found = prior.records(torch.nan_to_num(minima.points), Sorted.of(labels, prior.classes))
        pushed = prior.pushed(found[:, None], labels[:, None])[:, 0]
        inputs, guesses = (
            view.input_spec.settled(self._inputs(value)) for value in (found, pushed)
        )
        like = view.observation.update
        made = (inputs, self._targets(found, labels), guesses, minima.loss)
        inputs, targets, guesses, loss = (
            item.to(like) if item.is_floating_point() else item for item in made
        )
        return inputs[:, None], targets[:, None], guesses[:, None], loss

    def _bound(
        self, distribution: Rest, labels: torch.Tensor
    ) -> Callable[[torch.Tensor], Evaluate]:
        """What `minimise` binds: the negative log posterior of z [A, d] and its gradient."""
        prior, by_class = self.prior, Sorted.of(labels, self.prior.classes)

        def bind(chosen: torch.Tensor) -> Evaluate:
            whole = self.units.weights.new_zeros(len(labels), prior.size)

            def evaluate(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                whole[chosen] = z
                with torch.enable_grad():
                    records = prior.records(whole, by_class).requires_grad_()
                    value = self._log_likelihood(distribution, records, labels)
                    (gradient,) = torch.autograd.grad(value.sum(), records)
                gradient = prior.pulled_back(gradient, by_class)[chosen]
                return (z * z).sum(1) / 2 - value.detach()[chosen], z - gradient

            return evaluate

        return bind

    def _added(self, rows: torch.Tensor) -> torch.Tensor:
        """Numbers [V, ...] of messages, summed over those of each training."""
        total = rows.new_zeros(int(self.training[-1]) + 1, *rows.shape[1:])
        return total.index_add_(0, self.training, rows)

    def _classes(self, seen: torch.Tensor) -> torch.Tensor:
        """The class [T] of each record, by the public ones' log likelihoods [T, P]."""
        if self.units.view.task.classes is None:
            return self.training.new_zeros(len(seen))
        member = one_hot(self.population.labels, self.prior.classes).T.bool()
        by_class = torch.where(member, seen[:, None], -torch.inf)
        return (torch.logsumexp(by_class, 2) - member.sum(1).clamp(min=1).log()).argmax(1)

    def _log_likelihood(
        self, distribution: Rest, records: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Σ log p(G | x) [T] over each training's messages, of records [T, d] within the range."""
        view = self.units.view
        inputs, targets = self._inputs(records), self._targets(records, labels)
        batch = Batch(inputs[self.training, None], targets[self.training, None], False)
        unit = records[:, : view.input_spec.size]
        beyond = (unit - unit.clamp(0, 1)).square().sum(1)
        return self._added(distribution.log_likelihood(batch)[:, 0]) - _BORDER * beyond

    def _inputs(self, records: torch.Tensor) -> torch.Tensor:
        """Inputs [T, *shape] of records as the prior counts them [T, d]."""
        spec = self.units.view.input_spec
        return spec.inputs(records[:, : spec.size].reshape(-1, *spec.shape))

    def _targets(self, records: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The records' classes [T], or their regression targets [T, ...]."""
        view = self.units.view
        if view.task.classes is not None:
            return labels
        targets = self.prior.shift + self.prior.scale * records[:, view.input_spec.size :]
        return targets.reshape(-1, *target_shape(view))
