"""TabLeak: tables' records found, as tables could hold them, and several starts pooled."""

from __future__ import annotations

import pytest
import torch
from tests.attacks.mixed_table import generated, right_columns, views_of

from trilemma.attacks import TabLeak
from trilemma.attacks.base import Reconstructions
from trilemma.attacks.tableak import pooled_starts
from trilemma.errors import InvalidInput
from trilemma.records.columns import Column, settled
from trilemma.records.range import InputSpec
from trilemma.scenarios.digits import digits
from trilemma.scenarios.medical_tables import diabetes

TABLE = (
    Column("a", mean=0.0, deviation=1.0, low=-5.0, high=5.0),
    Column("b", "category", ("x", "y", "z")),
)


def test_most_columns_of_a_batch_are_found_and_all_records_could_be() -> None:
    scenario = generated()
    views, truth = views_of(scenario, 4)
    found = TabLeak(starts=3)(views, restarts=1, seed=0)
    assert right_columns(scenario, found.inputs, truth) > 0.75
    assert torch.equal(settled(scenario.input_spec.columns, found.inputs), found.inputs)
    assert not bool(found.failed.any())


def test_the_same_views_tell_the_same_and_stay_as_they_were() -> None:
    views, _ = views_of(generated(), 2)
    before = [view.observation.update.clone() for view in views]
    first, second = (TabLeak(starts=2)(views, restarts=1, seed=0) for _ in range(2))
    assert torch.equal(first.inputs, second.inputs)
    assert all(map(torch.equal, before, [view.observation.update for view in views]))


def test_regression_is_attacked_with_its_targets() -> None:
    scenario = diabetes().with_local_training(batch=1)
    views, truth = views_of(scenario, 3)
    found = TabLeak(starts=6)(views, restarts=1, seed=0)
    assert right_columns(scenario, found.inputs, truth) > 0.9
    assert found.labels is not None
    assert found.labels.shape == (3, 1, 1)


def test_starts_that_explain_as_much_are_pooled_record_by_record() -> None:
    spec = InputSpec((4,), -5.0, 5.0, TABLE)
    one, other = [1.0, 1, 0, 0], [-3.0, 0, 0, 1]
    starts = torch.tensor(
        [
            [one, other],
            [[-2.8, 0, 0, 1], [1.2, 1, 0, 0]],  # the same records in another order
            [[1.6, 0, 1, 0], [-3.1, 0, 0, 1]],
            [[5.0, 0, 1, 0], [5.0, 0, 1, 0]],  # explains far less
        ]
    )
    loss = torch.tensor([1.0, 1.1, 1.2, 9.0])
    found = pooled_starts(Reconstructions(starts, None, loss, loss < 0), spec, 1, 4)
    torch.testing.assert_close(found.inputs[0], torch.tensor([[1.2, 1, 0, 0], [-3.0, 0, 0, 1]]))
    assert found.loss.tolist() == [1.0]
    broken = pooled_starts(Reconstructions(starts, None, loss, loss > 0), spec, 1, 4)
    assert broken.failed.tolist() == [True]


def test_inputs_without_columns_are_refused() -> None:
    views, _ = views_of(digits(clients=2, batch=1), 1)
    with pytest.raises(InvalidInput, match=r"is for tables.*shape \(1, 8, 8\)"):
        TabLeak()(views, restarts=1, seed=0)
