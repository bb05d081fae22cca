"""Factors tell the same of updates as the updates themselves, written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.attacks.conftest import digits, make_problems
from torch import nn
from torch.nn.functional import cross_entropy, interpolate

from trilemma.attacks import Linkage
from trilemma.attacks.linkage.marginal_likelihood import Rest, layers_of
from trilemma.attacks.linkage.update_projections import Factored, Written
from trilemma.attacks.matching import ViewTensors
from trilemma.attacks.posterior.posterior_inputs import Batch
from trilemma.learning import LocalTraining, Task

NET = Task(nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10)), cross_entropy, 10)


def distributions(**how: Any) -> tuple[Rest, torch.Tensor, Rest, torch.Tensor]:
    """Three messages by factors and written out, each with what it says of public records."""
    views = make_problems(3, task=NET, variance=1e-4, public=60, **how).views
    units = ViewTensors.of(views, "double")
    data, labels = (digit[:60] for digit in digits())
    population = Batch(data, labels, True).to(units.weights)
    layers = layers_of(views, population)
    assert layers is not None
    variance = units.noise.square()
    factored = Rest.of(units, variance, population, 0, layers)
    written = Rest.of(units, variance, population, 0)
    assert isinstance(factored[0].made, Factored)
    assert isinstance(written[0].made, Written)
    return *factored, *written


@pytest.mark.parametrize(
    "how",
    [
        {"training": LocalTraining(batch=3)},
        {"clients": 3, "weights_of": (0.7, 0.2, 0.1), "training": LocalTraining(batch=12)},
        {"training": LocalTraining(batch=3, sampling="poisson", record_clip=1.0)},
    ],
)
def test_both_ways_tell_the_same(how: dict[str, Any]) -> None:
    factored, seen, written, expected = distributions(**how)
    # rows around few means are nearly dependent, which blurs the remainder's last digits
    assert torch.allclose(seen, expected, rtol=1e-4)
    data, labels = digits()
    others = Batch(data[70:73, None], labels[70:73, None], False).to(seen)
    told, right = (distribution.log_likelihood(others) for distribution in (factored, written))
    assert float(expected.std()) > 1, "the records differ"
    assert torch.allclose(told, right, rtol=1e-4)


def test_a_message_may_be_named_more_than_once() -> None:
    factored, _, written, _ = distributions(training=LocalTraining(batch=3))
    data, labels = digits()
    three = Batch(data[70:73, None], labels[70:73, None], False).to(factored.inner)
    places = torch.tensor([2, 0, 2])
    chosen = Batch(three.inputs[places], three.labels[places], False)
    for distribution in (factored, written):
        whole = distribution.log_likelihood(three)
        assert torch.allclose(distribution.at(places).log_likelihood(chosen), whole[places])


def test_what_is_not_all_linear_or_not_all_read_is_written_out() -> None:
    data, labels = (digit[:60] for digit in digits())
    ways: list[dict[str, Any]] = [
        {"clip": 0.5},
        {"keep": 0.2},
        {"training": LocalTraining("fedavg", steps=2)},
    ]
    for how in ways:
        views = make_problems(2, task=NET, public=60, **how).views
        assert layers_of(views, Batch(data, labels, True).to(views[0].weights)) is None


class Bright(nn.Module):
    """A network of white pictures, smooth and large: all look alike but for little."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = interpolate(x.reshape(-1, 1, 8, 8), size=(32, 32), mode="bilinear")
        made: torch.Tensor = self.net(1 - wide.repeat(1, 3, 1, 1).flatten(1))
        return made


def test_updates_that_are_nearly_alike_are_told_apart() -> None:
    """Centred in single precision, products of factors would leave nothing but rounding."""
    torch.manual_seed(0)
    task = Task(Bright(), cross_entropy, 10)
    views = make_problems(2, task=task, training=LocalTraining(batch=4), public=200).views
    data, labels = (digit[:200] for digit in digits())
    population = Batch(data, labels, True).to(views[0].weights)
    assert layers_of(views, population) is not None
    found = Linkage(population=200, evaluations=5)(views, restarts=1, seed=0)
    assert not bool(found.failed.any())
