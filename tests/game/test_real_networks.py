"""Networks as users bring them, from the scenario to the pick."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.attacks import get
from trilemma.errors import InvalidInput
from trilemma.game.playing.games import Arena
from trilemma.game.playing.guesses import play
from trilemma.game.playing.observer import Observer
from trilemma.game.playing.suite import suite_of
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.records.tables import Table
from trilemma.scenarios.digits import digits
from trilemma.scenarios.medical_tables import breast_cancer
from trilemma.scenarios.text import Reader, text
from trilemma.tuning.families.proof_conditions import check_scenario


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(128, 10),
    )


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(30, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def of(ready: Scenario, model: nn.Module) -> Scenario:
    """The records of a ready-made scenario with another model."""
    return Scenario(
        model,
        cross_entropy,
        ready.records,
        ready.test_records,
        LocalTraining(batch=4),
        columns=ready.columns,
    )


def solved(scenario: Scenario, attack: str, games: int) -> float:
    """The share of unprotected candidate sets of one round that an attack solves."""
    arena = Arena.of(scenario, rounds=1)
    made = get(attack)
    seen = Observer(arena, Protection(), Adversary.SERVER, made.knows, 0, steps=5)
    drawn = [arena.draw(number, 0) for number in range(games)]
    found = play(seen, drawn, seen.views(drawn), made, restarts=1, seed=0)
    assert not bool(found.failed.any())
    return float(found.correct.double().mean())


@pytest.mark.parametrize(
    ("ready", "model", "games", "least"),
    [(digits, convolutional, 8, 0.5), (breast_cancer, normalised, 96, 0.05)],
)
def test_batch_norm_in_train_mode_is_attacked_batch_by_batch(
    ready: Callable[..., Scenario], model: Callable[[], nn.Module], games: int, least: float
) -> None:
    """Who knows the rest computes the statistics of a batch; a law of the rest tells less.

    Least of all where four numbers a neuron are normalised together: blind is 1 in 100.
    """
    scenario = of(ready(clients=4), model())
    assert scenario.couples_records
    assert "map" not in suite_of(scenario, "candidates").attacks
    assert solved(scenario, "exact-posterior", 8) == 1.0
    assert solved(scenario, "gaussian-posterior", games) >= least


def test_no_proof_for_single_records_where_batches_are_normalised() -> None:
    scenario = of(digits(clients=4), convolutional())
    with pytest.raises(InvalidInput, match="remembers them, which no proof covers"):
        check_scenario(scenario, by_record=True)
    with pytest.raises(InvalidInput, match="not the mean of its records"):
        scenario.with_local_training(record_clip=1.0)


def test_only_what_is_trained_is_sent_and_what_is_tied_once() -> None:
    ready = text(clients=2)
    tied = Reader(402, 12, 402)
    tied.head.weight = tied.token.weight
    one = of(ready, tied)
    assert one.task.layout.names.count("token.weight") == 1
    assert "head.weight" not in one.task.layout.names
    assert suite_of(one, "candidates").attacks == ("gaussian-posterior", "dager")
    headed = Reader(402, 12, 4)
    for name, parameter in headed.named_parameters():
        parameter.requires_grad_(name.startswith("head"))
    other = of(ready, headed)
    assert other.task.layout.names == ("head.weight", "head.bias")
    assert solved(other, "exact-posterior", 6) == 1.0


class Wards(nn.Module):
    """An embedding of a code beside three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.ward, self.head = nn.Embedding(5, 4), nn.Linear(7, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.ward(x[:, 0].long()), x[:, 1:]
        scores: torch.Tensor = self.head(torch.cat(parts, 1))
        return scores


def test_an_embedded_category_is_attacked_by_the_candidates_updates() -> None:
    draw = np.random.default_rng(0)
    frame = {
        "ward": draw.choice(list("abcde"), size=200),
        **{name: draw.normal(size=200) for name in ("x", "y", "z")},
        "ill": draw.integers(2, size=200),
    }
    table = Table.of(frame, "ill", embedded=["ward"])
    records = table.records(frame)
    scenario = Scenario(
        Wards(), cross_entropy, [records], records, LocalTraining(batch=4), columns=table.columns
    )
    assert suite_of(scenario, "candidates").attacks == ("gaussian-posterior",)
    assert solved(scenario, "exact-posterior", 6) == 1.0
    assert solved(scenario, "gaussian-posterior", 100) > 0.05, "blind: 1 in 100"


def test_whole_numbers_without_an_embedding_are_refused() -> None:
    counts = TensorDataset(torch.arange(40).reshape(10, 4), torch.zeros(10, dtype=torch.long))
    with pytest.raises(InvalidInput, match=r"taken as tokens, but this Linear has no"):
        Scenario(nn.Linear(4, 2), cross_entropy, [counts], counts)
