"""The spread of single records' updates, against scikit-learn and plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.discriminant_analysis import (  # type: ignore[import-untyped]
    LinearDiscriminantAnalysis,
)

from trilemma.attacks.matching import ViewTensors
from trilemma.attacks.update_spread import (
    Sample,
    Shares,
    linear_scale,
    record_spread,
    record_updates,
    telling_directions,
)
from trilemma.learning import LocalTraining, client_update

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

Maker = Callable[..., "Problems"]


def test_directions_are_those_of_discriminant_analysis() -> None:
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 400)
    mixing = np.eye(6) + 0.3 * draw.normal(size=(6, 6))
    updates = draw.normal(size=(1600, 6)) @ mixing + 2 * draw.normal(size=(4, 6))[labels]
    known = LinearDiscriminantAnalysis(solver="eigen").fit(updates, labels).scalings_[:, :3]
    shares = Shares(torch.ones(1, 1).double(), torch.ones(1, 1, 6).double(), size=1)
    found = telling_directions(
        torch.tensor(updates)[None], torch.tensor(labels), shares, torch.zeros(1).double()
    )[0]
    assert torch.allclose(found.T @ found, torch.eye(3).double(), atol=1e-9)
    # a ridge of 2 % of the diagonal turns them a little
    assert np.rad2deg(subspace_angles(found.numpy(), known)).max() < 3


def sample_of(made: Problems) -> tuple[ViewTensors, Sample, torch.Tensor]:
    public = made.views[0].knowledge.public
    assert public is not None
    units = ViewTensors.of(made.views, "double")
    sample = Sample.of(units, public.inputs, public.labels, 0)
    return units, sample, torch.arange(len(units))


@pytest.mark.parametrize("record_clip", [None, 0.7])
@pytest.mark.parametrize("keep", [None, 0.5])
def test_updates_of_single_records_are_a_loop_over_records(
    problems: Maker, record_clip: float | None, keep: float | None
) -> None:
    """At the last layer, and everywhere where that is not all read."""
    training = LocalTraining(batch=2, record_clip=record_clip)
    units, sample, rows = sample_of(problems(2, training=training, keep=keep, public=30))
    assert sample.places.tolist() == list(range(2080 if keep is None else 0, 2410))
    found = record_updates(units, rows, sample)
    single = LocalTraining(record_clip=record_clip)
    for unit in range(2):
        for record in range(30):
            x, y = sample.inputs[record : record + 1], sample.labels[record : record + 1]
            update = client_update(units.view.task, units.weights[unit], x, y, single)
            assert torch.allclose(found[unit, record], update[sample.places], atol=1e-12)


@pytest.mark.parametrize(
    ("training", "clip"),
    [
        (LocalTraining("fedavg", lr=0.01, steps=3, batch=4), None),
        (LocalTraining(batch=4), 0.1),
        (LocalTraining(batch=4), 100.0),
    ],
    ids=["short-steps", "clipped", "never-clipped"],
)
def test_the_linear_scale_is_that_of_clients(
    problems: Maker, training: LocalTraining, clip: float | None
) -> None:
    units, sample, rows = sample_of(problems(2, training=training, clip=clip, public=120))
    updates = record_updates(units, rows, sample)
    scale, misfit = linear_scale(units, rows, sample, updates)
    for unit in range(2):
        factors = []
        for start in range(0, 120, 4):
            own = slice(start, start + 4)
            update = client_update(
                units.view.task,
                units.weights[unit],
                sample.inputs[own],
                sample.labels[own],
                LocalTraining(batch=4),
            )
            factors.append(1.0 if clip is None else min(1.0, clip / float(update.norm())))
        steps = 0.03 if training.algorithm == "fedavg" else 1.0
        assert float(scale[unit]) == pytest.approx(steps * np.mean(factors), rel=0.15)
        assert float(misfit[unit]) < 0.05 * steps**2 * float(updates[unit].square().mean())


def test_sums_of_equal_weights_are_one_group(problems: Maker) -> None:
    made = problems(2, training=LocalTraining(batch=2), clients=3, public=120)
    public = made.views[0].knowledge.public
    assert public is not None
    (together,) = record_spread(ViewTensors.of(made.views, "single"), public, 0)
    assert (together.groups, together.size) == (1, 6)
    apart = problems(
        2, training=LocalTraining(batch=2), clients=3, weights_of=(0.5, 0.3, 0.2), public=120
    )
    (spread,) = record_spread(ViewTensors.of(apart.views, "single"), public, 0)
    assert (spread.groups, spread.size) == (3, 2)
    ratio = spread.mean[:, 0] / spread.mean[:, 2]
    assert torch.allclose(ratio, torch.full_like(ratio, 2.5), rtol=1e-5)
