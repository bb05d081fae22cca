"""Layers as people use them: updates are those of plain autograd, or the layer is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.checkpoint import checkpoint

from trilemma import LocalTraining, Scenario
from trilemma.errors import InvalidInput
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.learning import client_update
from trilemma.observations import Adversary
from trilemma.tuning.families.proof_conditions import check_scenario

ONE = LocalTraining(batch=2, lr=0.5)


def initialised(model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)


class Attending(nn.Module):
    """Attention over four parts of a record, as a layer or as a function."""

    def __init__(self, *, layer: bool) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, batch_first=True) if layer else None
        self.inner, self.head = nn.Linear(4, 12), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = x.view(-1, 4, 4)
        if self.layer is not None:
            made = self.layer(parts, parts, parts, need_weights=False)[0]
        else:
            asked, held, told = self.inner(parts).chunk(3, -1)
            made = scaled_dot_product_attention(asked, held, told, is_causal=True)
        scores: torch.Tensor = self.head(made.mean(1))
        return scores


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(16, 8), nn.Tanh())
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(checkpoint(self.block, x, use_reentrant=False))
        return scores


class Tied(nn.Module):
    """A linear layer forth, and its transpose back."""

    def __init__(self) -> None:
        super().__init__()
        self.forth = nn.Linear(16, 16)
        self.back = nn.Linear(16, 16)
        self.back.weight = self.forth.weight
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.back(self.forth(x).tanh()))
        return scores


class Counting(nn.Module):
    """A buffer that changes whenever the model is used, and does not matter."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        scores: torch.Tensor = self.head(x)
        return scores


MODELS: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: Attending(layer=True),
    "attention as a function": lambda: Attending(layer=False),
    "checkpointed": Checkpointed,
    "tied": Tied,
    "a buffer that changes": Counting,
    "lazy": lambda: nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(3)),
    "spectral norm, evaluated": lambda: nn.Sequential(spectral_norm(nn.Linear(16, 3))).eval(),
}


def scenario(model: nn.Module) -> Scenario:
    x = torch.rand(60, 16, generator=torch.Generator().manual_seed(0))
    y = torch.arange(60) % 3
    return Scenario(
        model, cross_entropy, [(x[:40], y[:40])], (x[40:], y[40:]), ONE, initialise=initialised
    )


@pytest.mark.parametrize("name", MODELS)
def test_an_update_is_that_of_plain_autograd_and_can_be_attacked(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    made = scenario(model)
    x, y = made.records[0].inputs[:2], made.records[0].labels[:2]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(
        cross_entropy(model(x), y), trained, allow_unused=True, materialize_grads=True
    )
    expected = torch.cat([gradient.flatten() for gradient in gradients])
    weights = made.task.layout.flatten(dict(model.named_parameters())).detach()
    sent = client_update(made.task, weights, x, y, ONE)
    torch.testing.assert_close(sent, expected, rtol=1e-4, atol=1e-6)
    assert JobRunner(made, None, 1, 1, 0, "rest")()(
        AttackJob("s", "none", ("exact-posterior",), Adversary.SERVER, 1, 0, 2)
    )


class Remembering(nn.Module):
    """A buffer that follows the records."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        scores: torch.Tensor = self.head(x)
        return scores


def test_a_buffer_that_remembers_records_is_named_and_others_are_proved() -> None:
    with pytest.raises(InvalidInput, match=r"buffer 'mean' changes whenever it sees records"):
        check_scenario(scenario(Remembering()), by_record=True)
    check_scenario(scenario(Counting()), by_record=True)
    check_scenario(
        scenario(nn.Sequential(spectral_norm(nn.Linear(16, 3))).train()), by_record=True
    )
