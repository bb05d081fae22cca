"""Whatever memory there is, the numbers are the same but for rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.game.adapters import scenario as adapted
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma import Scenario
from trilemma.attacks.posterior.candidate_updates import average_path, contributions
from trilemma.attacks.posterior.posterior_inputs import Batch
from trilemma.federation.cohort_updates import Sending
from trilemma.game.prepared_models import fresh_weights, prepare_models
from trilemma.learning import LocalTraining, RecordLoss, forward_memory, record_gradients
from trilemma.learning.layer_products import written_out

PAD = 0


def padded_loss(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """A mean over all tokens that are no padding: batches weigh their records."""
    wanted = tokens.masked_fill(tokens == PAD, -100)
    return cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=-100)


def convolutions() -> Scenario:
    draw = torch.Generator().manual_seed(0)
    records = torch.rand(24, 1, 6, 6, generator=draw), torch.arange(24) % 3
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)
    )
    return Scenario(net, cross_entropy, [records, records], records, LocalTraining(batch=4))


MADE = {"adapters": adapted, "convolutions": convolutions}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_the_least_memory_gives_the_same_numbers(
    make: Callable[[], Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    task, own = made.task, made.local_training
    weights, records = fresh_weights(made, range(2)), made.records[0][torch.arange(8)]
    batch, rows = (
        Batch(records.inputs, records.labels, True),
        torch.arange(2 * own.batch).view(2, -1),
    )
    loss = RecordLoss(
        "alone", lambda named, _, x, y: task.loss_of(task.run(named, x[None]), y[None])
    )

    def numbers() -> list[torch.Tensor]:
        parts = record_gradients(task, loss, weights[0], (), records.inputs, records.labels)
        sending = Sending(task, own, records.inputs, records.labels)
        shares = torch.full((2, 2), 0.5)
        means = sending.means(weights, rows.expand(2, 2, -1), shares)
        assert means is not None
        clipped = Sending(task, replace(own, record_clip=0.1), records.inputs, records.labels)
        return [
            torch.cat([written_out(part) for part in parts], 1),
            prepare_models(made, range(2), steps=2),
            average_path(task, weights, batch, own)[1],
            contributions(task, [weights], batch, own),
            sending.updates(weights[0], rows),
            sending.updates(weights, rows.expand(2, 2, -1)),
            means,
            clipped.updates(weights[0], rows),
        ]

    usual = numbers()
    monkeypatch.setattr(forward_memory, "HELD_AT_ONCE", 1)
    torch.testing.assert_close(numbers(), usual, rtol=1e-4, atol=1e-6)


def test_padding_alone_leaves_the_average_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    texts = torch.randint(1, 9, (12, 3), generator=draw)
    texts[8:] = PAD
    net = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    made = Scenario(net, padded_loss, [(texts[:8], texts[:8])], (texts, texts), LocalTraining())
    weights, training = fresh_weights(made, [0]), replace(made.local_training, batch=4)
    batch = Batch(texts, texts, True)
    usual = average_path(made.task, weights, batch, training)[1]
    monkeypatch.setattr(forward_memory, "HELD_AT_ONCE", 1)
    torch.testing.assert_close(average_path(made.task, weights, batch, training)[1], usual)
