"""Each condition that a proof needs is refused with a sentence, and nothing else is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from tests.cli.own_scenario import small
from torch import nn

from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.tuning.families.proof_conditions import (
    CERTIFIED,
    KEPT,
    certified_families,
    check_scenario,
)


class Remembers(nn.Module):
    """Counts what it has seen, in a buffer of another kind than BatchNorm's."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.seen: torch.Tensor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():
            self.seen.add_(inputs.shape[0])
        outputs: torch.Tensor = self.inner(inputs)
        return outputs


def normed(*, training: bool) -> Scenario:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    return replace(small(), model=model.train(training))


def test_what_the_small_scenario_has_can_be_proved() -> None:
    check_scenario(small(), by_record=True)


def test_statistics_of_past_batches_are_refused_and_frozen_ones_are_not() -> None:
    check_scenario(normed(training=False), by_record=True)
    frozen = normed(training=False)
    frozen.model.train()
    with pytest.raises(InvalidInput, match=r"buffer '1.running_mean' .* or use GroupNorm"):
        check_scenario(frozen, by_record=True)


def test_any_other_memory_is_refused() -> None:
    scenario = replace(small(), model=Remembers())
    with pytest.raises(InvalidInput, match="buffer 'seen' changes whenever it sees records"):
        check_scenario(scenario, by_record=True)


def test_a_coupled_loss_is_refused_where_single_records_are_clipped() -> None:
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
    scenario = replace(small(), loss=weighted, local_training=LocalTraining(batch=2))
    with pytest.raises(InvalidInput, match="not the mean of its records' losses"):
        check_scenario(scenario, by_record=True)
    check_scenario(scenario, by_record=False)


def test_fixed_batches_keep_no_participation_secret() -> None:
    with pytest.raises(InvalidInput, match="secret under Poisson sampling only"):
        Deployment(LocalTraining(batch=4), 10, 3, 3, 2, participation="secret")


def test_what_only_nodes_can_keep_is_said() -> None:
    text = " ".join(KEPT).lower()
    for word in ("momentum", "error feedback", "run again"):
        assert word in text


def test_families_that_can_be_proved() -> None:
    assert certified_families(None, clients=5) == CERTIFIED
    assert certified_families(None, clients=1) == ("randomization",)
    assert certified_families(["randomization"], clients=5) == ("randomization",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("compression", "without Gaussian noise"),
        ("secret-sharing", "without Gaussian noise"),
        ("paillier", "without Gaussian noise"),
        ("own.module:Noise", "without Gaussian noise"),
        ("compression+randomization", "error feedback"),
    ],
)
def test_other_families_are_refused_with_a_reason(name: str, why: str) -> None:
    sentence = rf"proved of {re.escape(name)}.*{why}.*choose from randomization"
    with pytest.raises(InvalidInput, match=sentence):
        certified_families(["randomization", name], clients=5)


class Banked(nn.Module):
    """Adds what it last saw to what it makes of tokens, and keeps that in no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.drop = nn.Embedding(9, 6), nn.Linear(6, 3), nn.Dropout()
        self.bank: torch.Tensor | None = None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        bank, made = self.bank, self.inner(self.drop(self.table(tokens)).mean(1))
        self.bank = made.detach().mean(0)
        outputs: torch.Tensor = made if bank is None else made + bank.to(made)
        return outputs


class Plain(Banked):
    """The same without the memory."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.bank = None
        return super().forward(tokens)


def read_tokens(model: nn.Module) -> Scenario:
    def records(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(9, (20, 5), generator=torch.Generator().manual_seed(seed))
        return tokens, tokens[:, 0] % 3

    return Scenario(model, nn.functional.cross_entropy, [records(0), records(1)], records(2))


def test_a_memory_that_is_no_buffer_is_refused_and_dropout_is_none() -> None:
    check_scenario(read_tokens(Plain()), by_record=True)
    with pytest.raises(InvalidInput, match="answer, by something that is no buffer, changes"):
        check_scenario(read_tokens(Banked()), by_record=True)
