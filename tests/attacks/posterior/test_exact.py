"""The exact posterior is Bayes' rule by brute force, and nobody with less knowledge beats it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.game.playing.small_observer import observer, scenario

from trilemma.attacks import View, get
from trilemma.learning import LocalTraining, client_update
from trilemma.observations import Noise


def seen_views(spec: str, games: int = 3) -> tuple[list[View], list[int]]:
    seen = observer(scenario(), spec)
    drawn = [seen.arena.draw(number, 3) for number in range(games)]
    return [views[0] for views in seen.views(drawn)], [game.target for game in drawn]


def by_brute_force(view: View) -> torch.Tensor:
    """The round computed anew with each candidate in the sought record's place, in float64."""
    known, shown = view.knowledge, view.observation
    assert known.rest is not None
    assert known.candidate_set is not None
    assert shown.noise is not None
    size = view.local_training.unit_size
    weights = shown.weights or (1 / shown.clients,) * shown.clients
    scores = []
    for row in range(len(known.candidate_set)):
        inputs, labels = known.rest.inputs.double().clone(), known.rest.labels.clone()
        inputs[known.slot] = known.candidate_set.inputs[row].double()
        labels[known.slot] = known.candidate_set.labels[row]
        total = torch.zeros_like(view.weights, dtype=torch.float64)
        for client in range(shown.clients):
            rows = slice(client * size, (client + 1) * size)
            update = client_update(
                view.task, view.weights.double(), inputs[rows], labels[rows], view.local_training
            )
            if shown.clip is not None:
                update = update * min(1.0, shown.clip / float(update.norm()))
            total += weights[client] * update
        gap = shown.update.double() - total
        if shown.known is not None:
            gap = gap[shown.known]
        scores.append(-float((gap**2).sum()) / (2 * shown.noise.scale**2))
    return torch.log_softmax(torch.tensor(scores, dtype=torch.float64), 0)


@pytest.mark.parametrize(
    "spec",
    [
        "randomization:variance=0.01",
        "randomization:variance=0.01+secret-sharing",
        "randomization:variance=0.01,clip=0.3+secret-sharing",
        "randomization:variance=0.01+compression:keep=0.5",
    ],
)
def test_it_is_bayes_rule(spec: str) -> None:
    views, _ = seen_views(spec)
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    for row, view in zip(found, views, strict=True):
        assert torch.allclose(row.double(), by_brute_force(view), atol=2e-2)


def test_several_local_steps_are_the_clients_own() -> None:
    seen = observer(scenario(), "randomization:variance=0.01")
    training = LocalTraining("fedavg", lr=0.5, steps=3, batch=2, records=4)
    made = replace(seen.arena.scenario, local_training=training)
    seen = observer(made, "randomization:variance=0.01")
    views = [view[0] for view in seen.views([seen.arena.draw(0, 3)])]
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    assert torch.allclose(found[0].double(), by_brute_force(views[0]), atol=2e-2)


def test_without_noise_the_nearest_takes_all() -> None:
    views, target = seen_views("none", games=6)
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    assert found.argmax(1).tolist() == target
    assert found.exp().max(1).values.tolist() == pytest.approx([1.0] * 6)


def test_uniform_noise_leaves_those_within_its_reach() -> None:
    views, target = seen_views("none", games=4)
    wide = [
        replace(view, observation=replace(view.observation, noise=Noise("uniform", 10.0)))
        for view in views
    ]
    found = get("exact-posterior")(wide, restarts=1, seed=0).log_probability
    assert found is not None
    assert found.exp().std(1).max() < 1e-9, "all candidates are within reach"
    narrow = [
        replace(view, observation=replace(view.observation, noise=Noise("uniform", 1e-5)))
        for view in views
    ]
    found = get("exact-posterior")(narrow, restarts=1, seed=0).log_probability
    assert found is not None
    assert found.argmax(1).tolist() == target


@pytest.mark.parametrize("spec", ["randomization:variance=0.02", "secret-sharing"])
def test_no_other_pick_is_likelier_than_its_own(spec: str) -> None:
    """Unit by unit: π(pick of any attack) ≤ max π, and on average too."""
    views, _ = seen_views(spec, games=12)
    if spec == "secret-sharing":
        noisy, _ = seen_views("randomization:variance=0.02+secret-sharing", games=12)
        views = noisy
    exact = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    other = get("gaussian-posterior")(views, restarts=1, seed=0).log_probability
    assert exact is not None
    assert other is not None
    guessed = exact.gather(1, other.argmax(1, keepdim=True))[:, 0]
    assert bool((guessed <= exact.max(1).values).all())
    assert float(guessed.exp().mean()) < float(exact.exp().max(1).values.mean())


def test_its_beliefs_are_calibrated() -> None:
    """What it holds likely at p is right in about p of all games."""
    views, target = seen_views("randomization:variance=0.05", games=100)
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    sure = found.exp().max(1).values
    right = (found.argmax(1) == torch.tensor(target)).double()
    error = math.sqrt(float((sure * (1 - sure)).sum())) / len(views)
    assert abs(float(right.mean() - sure.mean())) < 4 * error
