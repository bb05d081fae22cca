from __future__ import annotations

import time

import pytest
import torch

from trilemma.execution.work_seconds import work_seconds


def test_waiting_is_no_work_and_computing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, cpu = iter([0.0, 100.0]), iter([1.0, 3.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(time, "process_time", lambda: next(cpu))
    start = work_seconds(torch.device("cpu"))
    assert work_seconds(torch.device("cpu")) - start == 2.5


def test_a_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: done.append(str(device)))
    monkeypatch.setattr(time, "perf_counter", lambda: 7.0 + len(done))
    assert work_seconds(torch.device("cuda:0")) == 8.0
    assert done == ["cuda:0"]
