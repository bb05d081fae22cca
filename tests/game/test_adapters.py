"""Hugging Face's models with PEFT's adapters, as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.game.adapters import network, next_token, scenario, texts

from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied, own_recipe
from trilemma.learning import Way, client_update


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "trilemma", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_adapters_alone_are_the_update_and_start_as_no_change() -> None:
    made = scenario()
    named = dict(made.task.model.named_parameters())
    assert made.task.way == Way()
    assert made.task.layout.size == 2 * 4 * (128 + 3 * 128)
    assert all("lora_" in name for name in made.task.layout.names)
    one, other = (made.task.layout.unflatten(weight) for weight in fresh_weights(made, range(2)))
    for name, values in one.items():
        assert bool(values.any()) != ("lora_B" in name)
        assert torch.equal(values, other[name]) == ("lora_B" in name)
    assert all("lora_" in name for name, value in named.items() if value.requires_grad)


def test_an_update_of_adapters_is_that_of_plain_autograd() -> None:
    made, own = scenario(), network()
    tokens = texts(2, 7)[0]
    trained = {name: item for name, item in own.named_parameters() if item.requires_grad}
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in trained.values():
            value.copy_(0.1 * torch.randn(value.shape, generator=draw))
    weights = made.task.layout.flatten(trained).detach()
    gradients = torch.autograd.grad(next_token(own(tokens).logits, tokens), list(trained.values()))
    expected = made.task.layout.flatten(dict(zip(trained, gradients, strict=True)))
    sent = client_update(made.task, weights, tokens, tokens, made.local_training)
    torch.testing.assert_close(sent, expected, rtol=1e-4, atol=1e-7)
    assert sent.norm() > 1e-4


def test_the_frozen_body_is_one_for_all_copies() -> None:
    made = scenario()
    frozen = [item for item in made.model.parameters() if not item.requires_grad]
    body = {item.data_ptr() for item in frozen}
    own = {name for name, item in made.model.named_parameters() if item.requires_grad}
    recipe = replace(
        own_recipe(made), local_training=replace(made.local_training, record_clip=0.1)
    )
    fresh_weights(made, range(2))
    for other in (made.task.model, applied(recipe, made).task.model, made.as_given()):
        assert {item.data_ptr() for item in other.parameters() if not item.requires_grad} == body
        trained = {name for name, item in other.named_parameters() if item.requires_grad}
        assert trained == own
        assert not {
            id(parameter) for parameter in other.parameters() if parameter.requires_grad
        } & {id(parameter) for parameter in made.model.parameters()}
    made.as_given().double()
    assert {item.dtype for item in frozen} == {torch.float32}, "a copy that moves leaves the model"


@pytest.mark.slow
def test_adapters_are_checked_and_get_a_verdict(tmp_path: Path) -> None:
    told = run("check", "tests.game.adapters:scenario")
    assert "recorded once" in " ".join(told.split())
    assert "4,096 parameters" in " ".join(told.split())
    given = ("--scenario", "tests.game.adapters:scenario", "--out", str(tmp_path / "run"))
    run("tune", *given, "--quick", "--families", "randomization", "--steps", "2")
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert verdict["protection"].startswith("randomization:variance=")
