"""Clients of a round: in one pass where that pays, one by one where it does not."""

from __future__ import annotations

import pytest
import torch
from tests.federation.small import federation, trained

from trilemma.errors import InvalidInput
from trilemma.federation import cohort_updates
from trilemma.learning import LocalTraining
from trilemma.records.records import Records

FEDSGD = LocalTraining("fedsgd", lr=0.5, batch=6)


FEDAVG = LocalTraining("fedavg", lr=0.3, steps=4, batch=3, records=8)  # the last step wraps round


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three clients in one vmapped pass, which are too few for it to pay."""
    monkeypatch.setattr(cohort_updates, "_FEW", 1)


@pytest.mark.usefixtures("together")
def test_a_busy_step_trains_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # 3 records x (5·4 + 4·3) multiply-adds x 2
    for limit, reason in (
        (191, "a step of 0 Mflop keeps a CPU busy with one client"),
        (192, None),
    ):
        monkeypatch.setattr(cohort_updates, "_BUSY_FLOPS", limit)
        assert trained(federation(FEDAVG), rounds=1).one_by_one == reason


@pytest.mark.usefixtures("together")
def test_the_vmapped_pass_may_be_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(federation(FEDAVG), rounds=3, seed=2)
    monkeypatch.setattr(cohort_updates, "_WIDEST", 2 * 39)
    assert torch.allclose(whole.weights, trained(federation(FEDAVG), rounds=3, seed=2).weights)


def test_few_clients_train_one_by_one_and_many_together() -> None:
    few = trained(federation(FEDAVG), rounds=1)
    assert few.one_by_one == "fewer than 6 clients are quicker so on a CPU"
    assert trained(federation(FEDAVG, sizes=(8,) * 6), rounds=1).one_by_one is None


def test_unlike_inputs_are_refused() -> None:
    class Mixed:
        task, test_records, device = federation().task, federation().test_records, "cpu"
        records = (federation().records[0], Records(torch.rand(9, 2), torch.zeros(9).long()))

    with pytest.raises(InvalidInput, match=r"inputs have shapes \[\(2,\), \(5,\)\]"):
        trained(Mixed(), local_training=FEDSGD, rounds=1)
