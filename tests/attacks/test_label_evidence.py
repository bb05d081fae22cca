"""Labels by evidence against scipy, brute force and the truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from trilemma.attacks.label_evidence import (
    all_counts,
    best_counts,
    climbed_counts,
    count_scores,
    labels_by_evidence,
)
from trilemma.attacks.matching import ViewTensors
from trilemma.attacks.update_spread import Spread
from trilemma.learning import LocalTraining
from trilemma.records.records import Records

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

Maker = Callable[..., "Problems"]
BATCH = LocalTraining(batch=4)


def spreads(units: int, groups: int, size: int, *, classes: int = 4, noise: float = 0.1) -> Spread:
    draw = torch.Generator().manual_seed(1)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    mean = randn(units, groups, classes, 3)
    root = 0.3 * randn(units, groups, classes, 3, 3)
    covariance = root @ root.mT + 0.01 * torch.eye(3, dtype=torch.float64)
    chosen = torch.randint(0, classes, (units, groups, size), generator=draw)
    counts = torch.nn.functional.one_hot(chosen, classes).sum(2).double()
    distribution = torch.einsum("ugc,ugcij->uij", counts, covariance) + noise * torch.eye(3)
    observed = torch.einsum("ugc,ugci->ui", counts, mean)
    observed += (torch.linalg.cholesky(distribution) @ randn(units, 3, 1))[..., 0]
    return Spread(mean, covariance, observed, torch.full((units,), noise, dtype=mean.dtype), size)


def labels_of(made: Problems, seed: int = 0) -> torch.Tensor:
    public = made.views[0].knowledge.public
    assert public is not None
    return labels_by_evidence(ViewTensors.of(made.views, "single"), public, seed)


def right(made: Problems) -> int:
    """ViewTensors whose labels are all right, whatever their order."""
    found = labels_of(made)
    return int((found.sort(1).values == made.labels.sort(1).values).all(1).sum())


def test_the_score_is_the_log_density_and_the_number_of_orders() -> None:
    spread = spreads(3, 2, 3)
    counts = torch.tensor([[1, 0, 2, 0], [0, 1, 1, 1]]).expand(3, 1, 2, 4)
    found = count_scores(spread, counts)[:, 0].numpy()
    n = counts[0, 0].numpy()
    for unit in range(3):
        mean = np.einsum("gc,gci->i", n, spread.mean[unit].numpy())
        covariance = np.einsum("gc,gcij->ij", n, spread.covariance[unit].numpy())
        distribution = multivariate_normal(mean, covariance + 0.1 * np.eye(3))
        expected = distribution.logpdf(spread.observed[unit].numpy()) - gammaln(n + 1).sum()
        constant = 1.5 * np.log(2 * np.pi)
        assert found[unit] == pytest.approx(expected + constant, rel=1e-9)


@pytest.mark.parametrize(("size", "classes"), [(1, 2), (4, 3), (3, 5)])
def test_all_counts_are_there_once(size: int, classes: int) -> None:
    brute = {n for n in product(range(size + 1), repeat=classes) if sum(n) == size}
    found = all_counts(size, classes)
    assert found is not None
    assert len(found) == len(brute)
    assert {tuple(row) for row in found.tolist()} == brute
    assert all_counts(40, 10) is None


def test_climbing_ends_at_the_best_of_all_counts_nearly_always() -> None:
    spread = spreads(60, 1, 4)
    every = all_counts(4, 4)
    assert every is not None
    best, climbed = best_counts(spread, every), climbed_counts(spread)
    assert (climbed.sum(2) == 4).all()
    assert (climbed >= 0).all()
    exact = (best == climbed).all(2)
    assert int(exact.sum()) >= 54
    better = count_scores(spread, climbed[:, None]) - count_scores(spread, best[:, None])
    assert (better <= 1e-9).all()


def test_clients_of_their_own_weight_keep_their_own_counts() -> None:
    """Against all pairs of counts of two clients."""
    spread = spreads(40, 2, 2, classes=3)
    each = all_counts(2, 3)
    assert each is not None
    pairs = torch.stack([torch.stack(pair) for pair in product(each, each)])
    scores = count_scores(spread, pairs[None].expand(40, -1, -1, -1))
    climbed = climbed_counts(spread)
    assert (climbed.sum(2) == 2).all()
    exact = (pairs[scores.argmax(1)] == climbed).flatten(1).all(1)
    assert int(exact.sum()) >= 28


@pytest.mark.parametrize(
    ("setting", "least"),
    [
        ({"training": BATCH, "variance": 1.27e-4}, 29),
        ({"training": BATCH, "keep": 0.08}, 29),
        ({"training": BATCH, "clients": 10}, 25),
        ({"training": BATCH, "clip": 0.5}, 24),
        ({"training": LocalTraining(batch=4, record_clip=0.5)}, 28),
        ({"training": LocalTraining("fedavg", lr=0.5, steps=3, batch=4)}, 24),
        ({"training": LocalTraining(batch=2), "clients": 3, "keep": 0.3, "own_places": True}, 26),
        ({"training": BATCH, "clients": 2, "weights_of": (0.8, 0.2)}, 20),
    ],
    ids=["noise", "mask", "sum", "clip", "record-clip", "local-steps", "own-places", "weighted"],
)
def test_labels_of_digits(problems: Maker, setting: dict[str, object], least: int) -> None:
    assert right(problems(30, public=297, **setting)) >= least


def test_whose_label_it_is_shows_where_weights_differ(problems: Maker) -> None:
    made = problems(30, clients=2, weights_of=(0.8, 0.2), public=297)
    assert int((labels_of(made) == made.labels).all(1).sum()) >= 27


def test_a_class_without_public_records_is_found_by_others_relabelled(problems: Maker) -> None:
    made = problems(30, public=297)
    public = made.views[0].knowledge.public
    assert public is not None
    rows = public.labels != 3
    less = Records(public.inputs[rows], public.labels[rows])
    knowledge = dataclasses.replace(made.views[0].knowledge, public=less)
    views = [dataclasses.replace(view, knowledge=knowledge) for view in made.views]
    found = labels_of(dataclasses.replace(made, views=views))
    assert int((found == made.labels).sum()) >= 29
    assert int((made.labels == 3).sum()) > 0


def test_labels_of_one_unit_do_not_depend_on_the_others(problems: Maker) -> None:
    made = problems(6, training=BATCH, variance=1e-4, public=297)
    together = labels_of(made)
    for unit in range(6):
        alone = labels_of(dataclasses.replace(made, views=made.views[unit : unit + 1]))
        assert torch.equal(alone[0], together[unit])
