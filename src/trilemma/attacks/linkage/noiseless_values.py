"""What values without noise say of single inputs: that one is blank, or about how large it is.

In a first linear layer a record's share of a coordinate is one of its inputs times a gradient, and
so exactly nothing where that input is zero. A zero that is read says that the input is blank in
every record of the batch; another value, where all the others are probably blank, is one record's
input times a gradient that is known for its class. Which coordinate hangs on which input is told
by where the public records' own shares vanish, not by the kind of layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.functional import one_hot

from trilemma.attacks.posterior.candidate_updates import contributions
from trilemma.attacks.posterior.exact_values import values_are_exact
from trilemma.attacks.posterior.rest_distribution import count_vectors, few_counts, log_ways

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.attacks.matching import ViewTensors
    from trilemma.attacks.posterior.posterior_inputs import Batch
    from trilemma.attacks.priors import Prior
    from trilemma.records.range import InputSpec

__all__ = ["Reading", "readings"]

_MOST: Final = 256  # coordinates of a message that are weighed
_CHANCE: Final = 0.01  # that zeros of a share are within those of an input which it ignores
_NEVER: Final = 1e-9  # probability of what public records say cannot be
_UNLIKELY: Final = 1e-3  # times the likeliest class's probability: a candidate is not of it
_ROUNDING: Final = 1e-6  # of a share's mean square: variance of a value that is read
_BORROWED: Final = 2.0  # records' worth of all classes' variance beside that of a class


@dataclass(frozen=True, eq=False)
class _Distribution:
    """Shares of the records of class c: nothing, or N(mean, variance) with `there` [C, J]."""

    there: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    @classmethod
    def of(cls, values: torch.Tensor, could: torch.Tensor, member: torch.Tensor) -> _Distribution:
        """Of values [P, J], which may be something where `could` [P, J] is 1; classes [P, C]."""
        some = (values != 0).to(values)
        count, total = member.T @ some, some.sum(0).clamp(min=1)
        share = some.sum(0) / could.sum(0).clamp(min=1)
        mean = (member.T @ values + 0.5 * values.sum(0) / total) / (count + 0.5)
        apart = member.T @ (some * (values - member @ mean).square())
        common = apart.sum(0) / (total - len(mean)).clamp(min=3)
        return cls(
            (count + share) / (member.T @ could + 1),
            mean,
            (apart + _BORROWED * common) / (count + _BORROWED),
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """p(G | x) of one message G, by the values x of single inputs; made before x is seen.

    Σ_c p(c | x) Σ_n p(n) Π_j p(G_j | x, c, n): c is the record's class, n [H, C] counts how many
    others there are of each, with log weights `level` [H]. The record's share of coordinate j is
    nothing if its input at `places_j` is, else that input times `gradient`; the input is 1 where
    there is none (-1). Each other's share is that of `rest`, and of all together nothing, or
    Gaussian.
    """

    prior: Prior
    spec: InputSpec
    places: torch.Tensor
    seen: torch.Tensor
    gradient: _Distribution
    rest: _Distribution
    counts: torch.Tensor
    level: torch.Tensor

    def log_likelihood(self, inputs: torch.Tensor) -> torch.Tensor:
        """log p(G | x) [N] of inputs [N, *shape], up to a constant."""
        x = inputs.to(self.seen)
        classes = self.prior.memberships(self.spec.units(x).flatten(1)).to(x)
        values = _values(x, self.places)
        likely = classes > classes.amax(1, keepdim=True) + math.log(_UNLIKELY)
        found = torch.full_like(classes, -torch.inf)
        for label, rows in enumerate(likely.T):
            found[rows, label] = classes[rows, label] + self._given(values[rows], label)
        return torch.logsumexp(found, 1)

    def _given(self, x: torch.Tensor, label: int) -> torch.Tensor:
        """log p(G | x, c) [n] of values x [n, J].

        A zero is one of everyone's; any other value is the record's alone, the others' alone, or
        both's.
        """
        (nothing, mean, variance), error = self._others, self._error
        some, blank = _log(1 - nothing.exp()), self.seen == 0
        there = self.gradient.there[label] * (x != 0)
        absent, present = _log(1 - there), _log(there)
        total = self.level + nothing[:, blank].sum(1) + absent[:, blank].sum(1)[:, None]
        own, wide = self.gradient.mean[label] * x, self.gradient.variance[label] * x.square()
        for j in torch.nonzero(~blank)[:, 0].tolist():
            here, gone = present[:, j, None], absent[:, j, None]
            gap = self.seen[j] - own[:, j, None]
            width = wide[:, j, None] + error[j]
            ways = (
                here + nothing[:, j] + _normal(gap, width),
                gone + some[:, j] + _normal(self.seen[j] - mean[:, j], variance[:, j]),
                here + some[:, j] + _normal(gap - mean[:, j], width + variance[:, j]),
            )
            total = total + torch.logsumexp(torch.stack(ways), 0)
        return torch.logsumexp(total, 1)

    @property
    def _error(self) -> torch.Tensor:
        """The variance [J] with which a value is read."""
        square = (self.rest.variance + self.rest.mean.square()).mean(0)
        return (_ROUNDING * square).clamp(min=torch.finfo(square.dtype).tiny)

    @property
    def _others(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log probability [H, J] that the rest is nothing; its mean and variance if it is not."""
        each, counts = self.rest, self.counts
        nothing = counts @ _log(1 - each.there)
        some = (1 - nothing.exp()).clamp(min=_NEVER)
        mean, square = each.there * each.mean, each.there * (each.variance + each.mean.square())
        middle, variance = counts @ mean, counts @ (square - mean.square())
        variance = (variance + middle.square()) / some - (middle / some).square()
        return nothing, middle / some, variance.clamp(min=0) + self._error


def readings(units: ViewTensors, population: Batch, prior: Prior) -> list[Reading | None]:
    """What each unit's message says so; nothing where values have noise or hang on no input."""
    if not values_are_exact(units):
        return [None] * len(units)
    return [_reading(units, unit, population, prior) for unit in range(len(units))]


def _reading(units: ViewTensors, unit: int, population: Batch, prior: Prior) -> Reading | None:
    view, at = units.view, units.weights[unit : unit + 1]
    read = units.known[unit].nonzero()[:, 0]
    shares = contributions(view.task, [at], population, view.local_training)[0][:, read].double()
    there = population.inputs.flatten(1) != 0
    places = _inputs_of(shares != 0, there)
    if not bool((places >= 0).any()):
        return None
    # a share that is never nothing tells classes; what is so without an input tells nothing
    kept = torch.nonzero((places >= 0) | (shares != 0).all(0))[:, 0]
    kept = kept[:: -(-len(kept) // _MOST)]
    read, places = read[kept], places[kept]
    weight = units.client_weights[unit, 0]
    weight = (weight if weight.ndim == 0 else weight[read]) / view.local_training.unit_size
    shares = shares[:, kept] * weight
    values = _values(population.inputs.to(shares), places)
    counts, level, member = _context(view, population)
    label = population.labels if view.task.classes is not None else torch.zeros_like(places[:1])
    own = one_hot(label.expand(population.count), prior.classes).to(shares)
    gradients = torch.where(values != 0, shares / values, 0.0)
    return Reading(
        *(prior, view.input_spec, places, units.update[unit, read].double()),
        _Distribution.of(gradients, (values != 0).double(), own),
        _Distribution.of(shares, torch.ones_like(shares), member),
        *(counts, level),
    )


def _context(view: View, population: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Counts [H, C] of the others by class, their log weights [H], and classes [P, C].

    Of one class where counts would be too many, or are left to chance.
    """
    chance = view.local_training.sampling == "poisson"
    others, classes = view.records - (0 if chance else 1), view.task.classes
    like = torch.zeros(1, 1, dtype=torch.float64, device=population.inputs.device)
    if classes is None or chance or not few_counts(others, classes):
        return like + others, like[0], like.expand(population.count, 1) + 1
    member = one_hot(population.labels, classes).to(like)
    counts = count_vectors(others, classes).to(like)
    return counts, log_ways(counts, member.sum(0)), member


def _values(inputs: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Values [n, J] of inputs [n, *shape] at places [J], 1 where there is none."""
    return torch.where(places < 0, 1.0, inputs.flatten(1)[:, places.clamp(min=0)])


def _inputs_of(shares: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """The input [J] without which a share is nothing, -1 for none.

    Of public records' shares [P, J] and inputs [P, d], true where something: the input that is
    something wherever the share is, and least often elsewhere, unless chance explains that.
    """
    without = shares.T.double() @ (~inputs).double()
    often = inputs.double().mean(0)
    alike = shares.sum(0)[:, None] * _log(often) < math.log(_CHANCE / len(often))
    fits = (without == 0) & alike
    return torch.where(fits.any(1), torch.where(fits, often, 2.0).argmin(1), -1)


def _log(probability: torch.Tensor) -> torch.Tensor:
    return probability.clamp(min=_NEVER).log()


def _normal(gap: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    return -(gap.square() / variance + variance.log()) / 2
