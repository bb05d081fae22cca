"""What GroupNorm would give where BatchNorm allows no proof."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trilemma import LocalTraining, Scenario
from trilemma.learning.modules import with_group_norm
from trilemma.tuning.families.proof_conditions import check_scenario
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.group_norm import GroupNormed, asked_with_group_norm
from trilemma.tuning.request import Request
from trilemma.tuning.tuning_run import tune


def pictures(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=draw)
    return torch.rand(count, 1, 4, 4, generator=draw) + 0.5 * labels[:, None, None, None], labels


def normed() -> Scenario:
    """A network whose second BatchNorm, in eval mode, is a constant."""
    frozen = nn.BatchNorm2d(4).eval()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 4, 1), frozen, nn.Flatten(),
        nn.Linear(16, 2),
    )  # fmt: skip
    clients = [pictures(20, client) for client in range(3)]
    training = LocalTraining(batch=4, lr=0.1)
    return Scenario(
        model, nn.functional.cross_entropy, clients, pictures(20, 9), training, rounds=3
    )


def test_every_batch_norm_in_train_mode_gives_way_and_no_other() -> None:
    kinds = [type(item) for item in with_group_norm(normed().model).children()]
    assert kinds == [nn.Conv2d, nn.GroupNorm, nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    made = GroupNormed(normed)()
    check_scenario(made, by_record=True)
    alone = made.task.model(made.records[0].inputs[:1])
    torch.testing.assert_close(alone, made.task.model(made.records[0].inputs[:5])[:1])
    groups = [item.num_groups for item in made.model.modules() if isinstance(item, nn.GroupNorm)]
    assert groups == [2]


def test_only_what_batch_norm_hinders_is_asked_again() -> None:
    hindered = Plan.of(normed(), Request(families="randomization,paillier"))
    asked = asked_with_group_norm(hindered)
    assert asked is not None
    assert asked.families == ("randomization",)
    assert asked_with_group_norm(Plan.of(normed(), Request(basis="measured"))) is None
    assert asked_with_group_norm(Plan.of(normed(), Request(families="paillier"))) is None
    assert asked_with_group_norm(Plan.of(GroupNormed(normed), Request())) is None


@pytest.mark.slow
def test_a_tuning_says_what_group_norm_would_give() -> None:
    asked = Request(families="randomization,paillier", preset="quick", minutes=0.01)
    found = tune(normed, asked)
    (said,) = [item for item in found.limits if "GroupNorm in the place" in item]
    assert found.chosen == "paillier"
    assert "there is a proof, for every attacker: noise of variance" in said
    assert "accuracy" in said
