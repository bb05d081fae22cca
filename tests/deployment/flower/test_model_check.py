"""A node of Flower's that looks at the server's model, by its own configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from tests.deployment.flower.harness import DirectGrid, train_only

from trilemma.attacks.crafted import craft
from trilemma.deployment.flower import ProtectedGrid, Terms, protect_mod
from trilemma.deployment.nodes.model_check import ModelCheck, Probes
from trilemma.learning import Task
from trilemma.protection.protection import Protection
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

TERMS = Terms(Protection((), SecretSharing(clip_range=8.0)), weighting="equal")


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def arrays(weights: torch.Tensor, task: Task) -> ArrayRecord:
    named = task.layout.unflatten(weights)
    return ArrayRecord({name: Array(value.detach().numpy()) for name, value in named.items()})


def started(crafted: bool, policy: str | None, folder: Path) -> tuple[DirectGrid, int]:
    """A run of two rounds; how often a node's own app ran."""
    task = Task(network(), nn.functional.cross_entropy, 3)
    inputs = torch.rand(80, 6, generator=torch.Generator().manual_seed(1))
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    if crafted:
        weights = craft("imprint", task, weights, inputs[40:], seed=0)
    probes = Probes.of(inputs[:40], torch.arange(40) % 3, seed=0)
    check = ModelCheck(network(), nn.functional.cross_entropy, probes)
    app, ran = ClientApp(mods=[protect_mod(TERMS, check=check)]), []

    @app.train()
    def train(message: Message, context: Context) -> Message:
        ran.append(context.node_id)
        sent = message.content.array_records["arrays"]
        after = {name: Array(value.numpy() * np.float32(0.999)) for name, value in sent.items()}
        metrics = MetricRecord({"num-examples": 1})
        return Message(
            RecordDict({"arrays": ArrayRecord(after), "metrics": metrics}), reply_to=message
        )

    own = folder / "trilemma-policy.toml"
    own.write_text("" if policy is None else f'model-check = "{policy}"\n')
    direct = DirectGrid(app, node_config={"trilemma-policy": str(own)})
    train_only().start(ProtectedGrid(direct, TERMS), arrays(weights, task), num_rounds=2)
    return direct, len(ran)


def errors(direct: DirectGrid) -> set[str]:
    return {str(item.error.reason) for item in direct.received if item.has_error()}


def test_an_honest_model_is_trained_on_and_remembered_from_round_to_round(tmp_path: Path) -> None:
    direct, ran = started(crafted=False, policy="refuse", folder=tmp_path)
    assert ran == 8
    assert not errors(direct)
    for context in direct.contexts.values():
        assert isinstance(context.state.config_records["trilemma"]["model-check"], bytes)


def test_a_crafted_model_is_refused_by_policy_before_the_app_runs(tmp_path: Path) -> None:
    direct, ran = started(crafted=True, policy="refuse", folder=tmp_path)
    assert ran == 0
    (said,) = errors(direct)
    assert said.startswith("ModelRefused: this node refuses the model")


def test_a_crafted_model_is_warned_of_without_a_policy(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    direct, ran = started(crafted=True, policy=None, folder=tmp_path)
    assert ran == 8
    assert not errors(direct)
    assert "stands out" in caplog.text
