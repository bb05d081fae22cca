"""Records whose labels are several whole numbers: a class a token, or a class a pixel."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy, interpolate

from trilemma import Scenario
from trilemma.errors import InvalidInput
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, TrainJob
from trilemma.game.playing.suite import leading, suite_of, why_not
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.tuning.choice.other_adversary import craftable
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

PARTS = LocalTraining(batch=2, lr=0.5)


class Segments(nn.Module):
    """A U-Net of one level: scores of two classes for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.up = nn.Conv2d(6, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.down(x).tanh()
        deep = interpolate(self.inner(avg_pool2d(wide, 2)).tanh(), scale_factor=2)
        made: torch.Tensor = self.up(torch.cat([wide, deep], 1))
        return made


class Causal(nn.Module):
    """One block of a transformer: scores of the next token at each place."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.scores = nn.Embedding(9, 8), nn.Linear(8, 9)
        self.block = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        made: torch.Tensor = self.scores(self.block(self.table(tokens), mask, is_causal=True))
        return made


class Tied(nn.Module):
    """Reads and writes tokens by one table, narrower than a batch is long."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.hidden = nn.Embedding(9, 4), nn.Linear(4, 4)
        self.scores = nn.Linear(4, 9, bias=False)
        self.scores.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.scores(self.hidden(self.table(tokens)).tanh())
        return made


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def masks(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0.5).long()


def texts(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(9, (count, 5), generator=torch.Generator().manual_seed(seed))
    return tokens, tokens


def segments() -> Scenario:
    torch.manual_seed(0)
    clients = [masks(40, client) for client in range(3)]
    return Scenario(Segments(), nn.CrossEntropyLoss(), clients, masks(60, 9), PARTS)


def language() -> Scenario:
    torch.manual_seed(0)
    clients = [texts(40, client) for client in range(3)]
    return Scenario(Causal(), next_token, clients, texts(60, 9), PARTS)


@pytest.mark.parametrize("make", [segments, language])
def test_a_class_for_each_part_is_trained_and_attacked(make: object) -> None:
    scenario = segments() if make is segments else language()
    assert scenario.classes is None
    assert scenario.task.way.kind == "recorded"
    known = suite_of(scenario, "candidates").attacks
    assert "gaussian-posterior" in known
    assert not {"dlg", "idlg", "inverting-gradients", "map", "linkage"} & set(known)
    work = JobRunner(scenario, None, 1, 2, 0, "rest")()
    for name in ("gaussian-posterior", "exact-posterior"):
        assert work(AttackJob("s", "none", (name,), Adversary.SERVER, 1, 0, 3))
    assert work(TrainJob("none", 0, 2))


def test_attacks_that_weigh_classes_are_left_out_with_the_reason() -> None:
    reason = why_not(segments(), "dlg")
    assert reason is not None
    assert "a label for each of their parts" in reason
    with pytest.raises(InvalidInput, match="use knows='candidates'"):
        suite_of(segments(), "nothing")


def test_a_model_without_an_attack_of_nothing_is_planned_and_replayed() -> None:
    clients = [texts(40, client) for client in range(3)]
    scenario = Scenario(Tied(), next_token, clients, texts(60, 9), PARTS)
    with pytest.raises(InvalidInput, match="use knows='candidates'"):
        suite_of(scenario, "nothing")
    assert leading(scenario, "nothing", 1) is None
    assert not craftable(Plan.of(scenario, Request(rounds=2)))


def test_one_label_a_record_needs_scores_of_a_record() -> None:
    x, y = masks(40, 0)
    with pytest.raises(InvalidInput, match="one integer label a record needs a model"):
        Scenario(Segments(), cross_entropy, [(x, y[:, 0, 0])], (x, y[:, 0, 0]))
