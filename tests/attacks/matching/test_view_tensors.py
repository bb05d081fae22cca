"""Views of one call as tensors: the levels to which noise is taken down, and their numbers."""

from __future__ import annotations

from dataclasses import replace

import torch
from tests.attacks.conftest import make_problems

from trilemma.attacks.map_prior import normal_starts
from trilemma.attacks.matching import Candidates, ViewTensors, random_starts
from trilemma.learning import LocalTraining, Task
from trilemma.observations import Noise


def test_levels_fall_to_the_noise_and_no_further() -> None:
    levels = ((1e-2, 5), (1e-4, 6), (1e-5, 7))
    bare = make_problems(2, training=LocalTraining(batch=4))
    mean_square = torch.stack([v.observation.update.square().mean() for v in bare.views]).float()
    stages = list(ViewTensors.of(bare.views, "single").variances(levels))
    assert [iterations for *_, iterations in stages] == [5, 6, 7]
    for (variance, falls, _), level in zip(stages, (1e-2, 1e-4, 1e-5), strict=True):
        assert torch.allclose(variance, level * mean_square, rtol=1e-5)
        assert bool(falls.all())
    for noise, expected in ((1e-6, [5, 6]), (1e-2, [5])):
        noisy = make_problems(2, training=LocalTraining(batch=4), variance=noise)
        stages = list(ViewTensors.of(noisy.views, "single").variances(levels))
        assert [iterations for *_, iterations in stages] == expected
        assert torch.allclose(stages[-1][0], torch.full((2,), noise), rtol=1e-5)


def test_a_unit_falls_no_further_than_its_own_noise() -> None:
    levels = ((1e-2, 5), (1e-4, 6), (1e-5, 7))
    loud, other = make_problems(2, training=LocalTraining(batch=4), variance=1e-2).views
    quiet = replace(other.observation, noise=Noise("gaussian", 1e-5))
    units = ViewTensors.of([loud, replace(other, observation=quiet)], "single")
    stages = list(units.variances(levels))
    assert [(falls.tolist(), spent) for _, falls, spent in stages] == [
        ([True, True], 5),
        ([False, True], 6),
        ([False, True], 7),
    ]


def test_of_large_models_fewer_units_are_evaluated_at_once() -> None:
    views = make_problems(2, training=LocalTraining(batch=4), variance=1e-2).views
    assert ViewTensors.of(views, "single").weights.dtype == torch.float32
    assert ViewTensors.of(views, "double").weights.dtype == torch.float64
    assert ViewTensors.of(views, "single").at_once(64) == 64
    task = views[0].task
    wide = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 20_000))
    large = Task(wide, task.loss, 20_000)
    size = large.layout.size
    assert size > 10**6
    many = [
        replace(
            view,
            task=large,
            weights=torch.zeros(size),
            observation=replace(view.observation, update=torch.zeros(size), known=None),
        )
        for view in views
    ]
    assert ViewTensors.of(many, "single").at_once(64) == 16 * 10**6 // (4 * size) == 3


def test_starts_go_by_the_units_numbers() -> None:
    """Not by their places; and units that are of no training have one of their own each."""
    views = [
        replace(view, training=training, round=round)
        for view, training, round in zip(
            make_problems(4).views, (5, 5, 8, 8), (0, 3, 0, 0), strict=True
        )
    ]

    def starts(*places: int) -> torch.Tensor:
        units = ViewTensors.of([views[place] for place in places], "single")
        drawn = random_starts(units, Candidates.of(units.view, joint=True), "dlg", 2, 7)
        return torch.cat((drawn, normal_starts(units, 2, 9, 7)), 2)

    def distinct(drawn: torch.Tensor) -> int:
        return len({tuple(row) for row in drawn.flatten(0, 1).tolist()})

    whole = starts(0, 1, 2, 3)
    assert distinct(whole) == 8, "every unit and restart has its own"
    assert torch.equal(starts(1, 2), whole[1:3])
    assert torch.equal(starts(2, 0), whole[[2, 0]])
    views = [replace(view, training=None) for view in views]
    assert distinct(starts(0, 1, 2, 3)) == 8
