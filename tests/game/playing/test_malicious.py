"""Games against a server that crafts the models of the rounds that it attacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from trilemma.attacks.crafted import craft
from trilemma.errors import InvalidInput
from trilemma.game.job_results import AttackResult, decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, client_update
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.scenarios import load_scenario

BARE = "secret-sharing"


def digits(**training: Any) -> Scenario:
    scenario = load_scenario("digits-mlp", clients=4)
    return replace(scenario, local_training=LocalTraining("fedsgd", **{"batch": 2, **training}))


def won(job: AttackJob, scenario: Scenario) -> int:
    result = decode(JobRunner(scenario, None, 1, 5, 3)()(job))
    assert isinstance(result, AttackResult)
    return result.won(job.attacks[0])


def job(**changes: Any) -> AttackJob:
    return AttackJob(
        "malicious", BARE, ("analytic",), Adversary.SERVER, 1, 0, 24, **changes
    )  # fmt: skip


def test_clients_train_at_the_crafted_model_which_is_what_the_attack_is_told() -> None:
    scenario = digits()
    arena = Arena.of(scenario, rounds=1)
    observer = Observer(arena, parse_protection("none"), Adversary.SERVER, "rest", seed=3, steps=2)
    games = [arena.draw(number, 3) for number in range(3)]
    honest = [view for (view,) in observer.views(games)]
    crafted = [view for (view,) in replace(observer, crafted="imprint").views(games)]
    for game, was, now in zip(games, honest, crafted, strict=True):
        assert not torch.equal(was.weights, now.weights)
        rest, slot = now.knowledge.rest, now.knowledge.slot
        assert rest is not None
        assert slot is not None
        inputs, labels = rest.inputs.clone(), rest.labels.clone()
        inputs[slot], labels[slot] = (
            arena.pool.inputs[game.sought],
            arena.pool.labels[game.sought],
        )
        sent = client_update(scenario.task, now.weights, inputs, labels, scenario.local_training)
        torch.testing.assert_close(now.observation.update, sent, rtol=1e-4, atol=1e-6)


def test_a_crafted_model_opens_bare_sums_that_an_honest_one_keeps_shut() -> None:
    scenario = digits(batch=4)
    honest, crafted = won(job(), scenario), won(job(crafted="trapdoors"), scenario)
    assert honest <= 6
    assert crafted >= 12


def test_a_training_is_attacked_in_its_rounds_and_goes_on_from_its_own_model() -> None:
    """With an attack in every round the server's model never moves: all are made of the first."""
    scenario = digits(batch=4, sampling="full", record_clip=0.1)
    arena = Arena.of(scenario, rounds=3)
    observer = Observer(
        arena, parse_protection("none"), Adversary.SERVER, "public", seed=3, crafted="trapdoor"
    )
    (views,) = observer.views([arena.draw(0, 3)])
    assert len(views) == 3
    first = scenario.task.layout.unflatten(views[0].weights)
    for view in views[1:]:
        later = scenario.task.layout.unflatten(view.weights)
        name = next(iter(first))
        assert torch.equal(first[name][1:], later[name][1:])


def test_a_proof_covers_crafted_models() -> None:
    """Clipped records and noise: who knows all others, at models crafted for the candidates."""
    scenario = digits(batch=375, sampling="full", record_clip=0.1)
    noise = (0.1 / 375 / 0.9) ** 2  # μ = .9 for one round
    spec = f"randomization:variance={noise}"
    asked = replace(job(crafted="trapdoors"), protection=spec, attacks=("exact-posterior",))
    right = won(replace(asked, count=60), scenario)
    bound = float(torch.special.ndtr(torch.special.ndtri(torch.tensor(1 / 76.0)) + 0.9))
    # 60 games at the bound's rate: fewer than one in a thousand exceed this
    assert right <= 60 * bound + 3.1 * (60 * bound) ** 0.5


def test_a_model_without_a_hidden_layer_is_refused_with_the_way_out() -> None:
    scenario = digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    flat = replace(scenario, model=model, initialise=None)
    with pytest.raises(InvalidInput, match="curious"):
        craft("imprint", flat.task, torch.zeros(650), flat.public_records.inputs, 0)
