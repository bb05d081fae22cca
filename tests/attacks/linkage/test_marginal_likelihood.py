"""What messages say of a record, against dense Gaussians that are written out and summed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from tests.attacks.conftest import digits, make_problems
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks.linkage.marginal_likelihood import Rest
from trilemma.attacks.matching import ViewTensors
from trilemma.attacks.posterior.posterior_inputs import Batch
from trilemma.learning import LocalTraining, Task, client_update

NOISE = 0.03
SMALL = Task(nn.Linear(64, 10, bias=False), cross_entropy, 10)  # of which some places are read


def read_places(size: int) -> torch.Tensor:
    known = torch.zeros(size, dtype=torch.bool)
    known[::23] = True
    return known


def distribution(**how: Any) -> tuple[ViewTensors, Rest, torch.Tensor, np.ndarray[Any, Any]]:
    """A unit, its law, log p(G | x) of the public records, and what those contribute [P, m]."""
    how = {"training": LocalTraining(batch=3), **how}
    view = make_problems(1, task=SMALL, variance=NOISE**2, public=60, **how).views[0]
    units = ViewTensors.of([view], "double")
    units.known[:] = read_places(units.known.shape[1])
    units.update.mul_(units.known)
    data, labels = (digit[:60] for digit in digits())
    rest, seen = Rest.of(units, units.noise.square(), Batch(data, labels, True), 0)
    alone = LocalTraining(batch=1, record_clip=how["training"].record_clip)
    made = [
        client_update(SMALL, view.weights, data[at : at + 1], labels[at : at + 1], alone)
        for at in range(60)
    ]
    return units, rest, seen[0], torch.stack(made)[:, read_places(640)].numpy()


def same_up_to_a_constant(found: torch.Tensor, expected: np.ndarray[Any, Any]) -> None:
    assert np.ptp(expected) > 1, "the records differ"
    gap = found.numpy() - expected
    assert np.allclose(gap, gap.mean(), atol=1e-6 * np.ptp(expected))


def test_a_small_rest_is_summed_over_the_classes_of_its_records() -> None:
    """Three records a message: all hundred pairs of classes of the other two."""
    units, rest, seen, made = distribution()
    labels = digits()[1][:60].numpy()
    means = np.stack([made[labels == c].mean(0) for c in range(10)])
    apart = made - means[labels]
    remainder = float(rest.remainder)
    covariance = 2 / 9 * apart.T @ apart / 50 + remainder * np.eye(made.shape[1])
    assert remainder >= NOISE**2
    observed = units.update[0, units.known[0].bool()].numpy()
    share = np.log(np.bincount(labels) / 60)
    expected = [
        logsumexp(
            [
                share[a]
                + share[b]
                + multivariate_normal.logpdf(
                    observed, (record + means[a] + means[b]) / 3, covariance
                )
                for a, b in product(range(10), repeat=2)
            ]
        )
        for record in made
    ]
    same_up_to_a_constant(seen, np.array(expected))


@pytest.mark.parametrize("weights", [None, (0.7, 0.2, 0.1)])
def test_a_large_rest_is_one_gaussian(weights: tuple[float, ...] | None) -> None:
    """Three clients of twelve records, with weights of their own; the first has the record."""
    how = {"clients": 3, "weights_of": weights, "training": LocalTraining(batch=12)}
    units, rest, seen, made = distribution(**how)
    w = np.array(weights or (1 / 3,) * 3)
    others = np.array([11, 12, 12])
    mean = made.mean(0)
    spread = (others * w**2).sum() / 144
    covariance = spread * np.cov(made.T) + float(rest.remainder) * np.eye(made.shape[1])
    observed = units.update[0, units.known[0].bool()].numpy()
    centre = (others * w).sum() / 12 * mean
    expected = [
        multivariate_normal.logpdf(observed, centre + w[0] / 12 * record, covariance)
        for record in made
    ]
    same_up_to_a_constant(seen, np.array(expected))


def test_records_that_join_by_chance_bring_their_mean_along() -> None:
    how = {"training": LocalTraining(batch=3, sampling="poisson", record_clip=1.0)}
    units, rest, seen, made = distribution(**how)
    second = 3 * made.T @ made / 60 / 9
    covariance = second + float(rest.remainder) * np.eye(made.shape[1])
    observed = units.update[0, units.known[0].bool()].numpy()
    expected = [
        multivariate_normal.logpdf(observed, made.mean(0) + record / 3, covariance)
        for record in made
    ]
    same_up_to_a_constant(seen, np.array(expected))


def test_clipping_shortens_what_a_record_adds() -> None:
    plain, clipped = (distribution(clip=clip)[1] for clip in (None, 0.1))
    assert float(clipped.share.max()) < 0.5 * float(plain.share.max())
