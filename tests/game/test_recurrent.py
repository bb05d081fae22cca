"""Recurrent classifiers as people write them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma import Scenario
from trilemma.federation.training import History
from trilemma.game.job_results import AttackResult, decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, TrainJob
from trilemma.game.playing.suite import suite_of
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary


class Classifier(nn.Module):
    def __init__(self, kind: type[nn.LSTM | nn.GRU | nn.RNN]) -> None:
        super().__init__()
        self.layer, self.scores = kind(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.scores(self.layer(x)[0][:, -1])
        return made


def series(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=draw)
    turns = torch.arange(4.0)[None, :, None] * (1 + labels[:, None, None])
    return torch.sin(turns + torch.rand(count, 1, 2, generator=draw)), labels


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_recurrent_classifiers_are_trained_and_attacked(
    kind: type[nn.LSTM | nn.GRU | nn.RNN], clip: float | None
) -> None:
    torch.manual_seed(0)
    clients = [series(40, client) for client in range(3)]
    training = LocalTraining(batch=2, lr=0.5, record_clip=clip)
    scenario = Scenario(Classifier(kind), cross_entropy, clients, series(60, 9), training)
    assert scenario.task.way.kind == "recorded"
    assert {"dlg", "gaussian-posterior"} <= set(suite_of(scenario, "candidates").attacks)
    work = JobRunner(scenario, None, 1, 1, 0, "rest")()
    for name in ("gaussian-posterior", "exact-posterior"):
        result = decode(work(AttackJob("s", "none", (name,), Adversary.SERVER, 1, 0, 6)))
        assert isinstance(result, AttackResult)
        assert result.failed[name] == 0
        assert result.won(name) >= 4
    assert isinstance(decode(work(TrainJob("none", 0, 2))), History)


@pytest.mark.slow
def test_a_search_finds_what_a_recurrent_classifier_was_shown() -> None:
    torch.manual_seed(0)
    clients = [series(40, client) for client in range(3)]
    training = LocalTraining(batch=1, lr=0.5)
    scenario = Scenario(Classifier(nn.GRU), cross_entropy, clients, series(60, 9), training)
    work = JobRunner(scenario, None, 1, 1, 0, "nothing")()
    result = decode(work(AttackJob("s", "none", ("dlg",), Adversary.SERVER, 1, 0, 2)))
    assert isinstance(result, AttackResult)
    assert result.failed["dlg"] == 0
