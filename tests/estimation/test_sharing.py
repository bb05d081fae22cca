from __future__ import annotations

import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.estimation import sharing


def test_a_task_that_finds_no_memory_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    left = 3

    @sharing.patient
    def work(task: int) -> int:
        nonlocal left
        left -= 1
        if left:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return 2 * task

    assert work(21) == 42
    assert waits == [2.0, 2.0]


def test_who_waits_in_vain_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    @sharing.patient
    def work(task: int) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(InvalidInput, match=r"did not suffice for a task .* use fewer workers"):
        work(0)


def test_other_errors_are_no_reason_to_wait() -> None:
    @sharing.patient
    def work(task: int) -> int:
        raise ValueError(f"no task {task}")

    with pytest.raises(ValueError, match="no task 7"):
        work(7)
