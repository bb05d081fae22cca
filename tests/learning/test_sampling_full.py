"""Full batches: all of a client's records, up to a number that a range was made for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, client_update, draw_rows
from trilemma.learning.tasks import Task


@pytest.mark.parametrize(("held", "drawn"), [(3, 3), (5, 5), (9, 5)])
def test_a_client_of_more_records_leaves_out_those_beyond_the_cap(held: int, drawn: int) -> None:
    capped = LocalTraining(batch=4, record_clip=0.1, sampling="full", records=5)
    rows, present = draw_rows(capped, held, np.random.default_rng(0))
    assert rows.tolist() == list(range(drawn))
    assert present is not None
    assert present.tolist() == [1.0] * drawn
    assert capped.unit_size == 4, "the denominator stays"


def test_records_that_all_pull_alike_stay_within_the_cap() -> None:
    """No sum of clipped gradients is longer than cap · clip / denominator, whoever holds more."""
    capped = LocalTraining(batch=4, record_clip=0.1, sampling="full", records=5)
    model = torch.nn.Linear(3, 2)
    task = Task(model, torch.nn.functional.cross_entropy, None)
    weights = task.layout.flatten(dict(model.named_parameters())).detach()
    rows, present = draw_rows(capped, 50, np.random.default_rng(0))
    inputs, labels = torch.ones(50, 3)[rows], torch.zeros(50, dtype=torch.long)[rows]
    update = client_update(task, weights, inputs, labels, capped, present)
    assert float(update.norm()) <= 5 * 0.1 / 4 * (1 + 1e-6)
    assert float(update.norm()) > 4 * 0.1 / 4


def test_a_cap_below_the_denominator_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one batch"):
        LocalTraining(batch=4, record_clip=0.1, sampling="full", records=3)
