"""Coordinates clipped one by one, and Laplace noise: the exact posterior against brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from trilemma.attacks import get
from trilemma.attacks.base import View
from trilemma.attacks.matching import ViewTensors
from trilemma.learning import client_update
from trilemma.observations import Noise, Observation
from trilemma.testing.controls import Control

LIMIT = 0.02


def observed(noise: Noise | None) -> tuple[list[View], torch.Tensor]:
    """Views of clipped updates, of which some coordinates are read, and what candidates send."""
    control = Control.of("numbers", 5, 0)
    draw = torch.Generator().manual_seed(1)
    views, sent = list[View](), []
    for view in control.views:
        candidate_set = view.knowledge.candidate_set
        assert candidate_set is not None
        candidates = torch.stack(
            [
                client_update(view.task, view.weights, x[None], y[None], view.local_training)
                for x, y in zip(candidate_set.inputs, candidate_set.labels, strict=True)
            ]
        )
        known = torch.rand(view.task.layout.size, generator=draw) < 0.5
        update = view.observation.update.clamp(-LIMIT, LIMIT)
        if noise is not None:
            shape = torch.distributions.Laplace(0.0, noise.scale)
            torch.manual_seed(len(views))
            update = update + shape.sample(update.shape)
        seen = Observation(torch.where(known, update, 0.0), known, noise, limit=LIMIT)
        views.append(replace(view, observation=seen))
        sent.append(candidates.clamp(-LIMIT, LIMIT))
    return views, torch.stack(sent)


def test_the_likelihood_is_that_of_laplace_noise_on_clipped_updates() -> None:
    views, candidates = observed(Noise("laplace", 0.01))
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    for row, view, made in zip(found, views, candidates, strict=True):
        known = view.observation.known
        assert known is not None
        gaps = (view.observation.update - made)[:, known].abs().sum(1)
        torch.testing.assert_close(row, torch.log_softmax(-gaps / 0.01, 0), atol=1e-6, rtol=1e-6)


def test_without_noise_clipped_updates_are_told_apart() -> None:
    views, _ = observed(None)
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    assert found.argmax(1).tolist() == list(range(5))


def test_others_read_what_lies_within_the_limit_alone() -> None:
    views, _ = observed(None)
    units = ViewTensors.of(views, "double")
    for view, known in zip(views, units.known.bool(), strict=True):
        within = view.observation.update.abs() < LIMIT * (1 - 1e-5)
        assert view.observation.known is not None
        assert torch.equal(known, within & view.observation.known)
    whole = ViewTensors.of(views, "double", at_limit=True).known.bool()
    assert bool((whole & ~units.known.bool()).any()), "some were clipped"
    least = [replace(v, observation=replace(v.observation, limit=1e-12)) for v in views]
    assert bool(ViewTensors.of(least, "double").known.any()), "of signs alone none are left out"


@pytest.mark.parametrize(
    ("kind", "draws"), [("gaussian", 1.0), ("uniform", 3**-0.5), ("laplace", 2**0.5)]
)
def test_deviations(kind: str, draws: float) -> None:
    assert Noise(kind, 2.0).deviation == pytest.approx(2 * draws)  # type: ignore[arg-type]
