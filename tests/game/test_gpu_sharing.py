from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.federation.cohort_updates import Sending
from trilemma.federation.recipe import Recipe
from trilemma.game import gpu_sharing
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import TrainJob
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.scenarios.digits import digits


def test_a_task_that_finds_no_memory_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    left = 3

    @gpu_sharing.patient
    def work(task: int) -> int:
        nonlocal left
        left -= 1
        if left:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return 2 * task

    assert work(21) == 42
    first, second = waits
    assert 1 <= first <= 3
    assert 2 <= second <= 6


def test_who_waits_in_vain_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    @gpu_sharing.patient
    def work(task: int) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(InvalidInput, match=r"does not suffice .* use fewer workers"):
        work(0)


def test_other_errors_are_no_reason_to_wait() -> None:
    @gpu_sharing.patient
    def work(task: int) -> int:
        raise ValueError(f"no task {task}")

    with pytest.raises(ValueError, match="no task 7"):
        work(7)


def test_a_finished_task_is_not_lost_when_a_gpu_fails_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.cuda, "is_initialized", broken)
    assert gpu_sharing.patient(abs)(-3) == 3


@pytest.mark.parametrize(("held", "given_back"), [(1, 0), (9, 1)])
def test_only_much_memory_is_given_back(
    monkeypatch: pytest.MonkeyPatch, held: int, given_back: int
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    there = SimpleNamespace(total_memory=256)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: there)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: held)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(None))
    assert gpu_sharing.patient(abs)(-3) == 3
    assert len(calls) == given_back


@pytest.mark.parametrize("clip", [None, 1.0])
def test_short_memory_is_no_fact_about_a_protection(
    monkeypatch: pytest.MonkeyPatch, clip: float | None
) -> None:
    """Neither divergence nor a model that vmap cannot run: the training is done again."""
    updates, calls = Sending.updates, iter([True])

    def short(self: Sending, *arguments: Any) -> torch.Tensor:
        if next(calls, False):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return updates(self, *arguments)

    monkeypatch.setattr("time.sleep", lambda _: None)
    task = TrainJob(protection="randomization:variance=0.001", rounds=2, seed=0)
    if clip is not None:
        recipe = Recipe(LocalTraining(batch=4, record_clip=clip), 1.0, False, True)
        task = replace(task, recipe=recipe)
    work = JobRunner(digits(), None, 1, 5, 0)()
    quiet = work(task)
    monkeypatch.setattr(Sending, "updates", short)
    assert work(task) == quiet
    assert decode(quiet).one_by_one is None


def test_a_workers_scenario_waits_for_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    shortages = iter([True, True])

    def source() -> Scenario:
        if next(shortages, False):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return digits()

    assert gpu_sharing.own_scenario(source).classes == 10


def test_tasks_are_joined_where_a_gpu_would_idle() -> None:
    def on(device: str, size: int) -> int:
        layout = SimpleNamespace(size=size)
        made: Any = SimpleNamespace(device=device, task=SimpleNamespace(layout=layout))
        return gpu_sharing.views_together(made)

    assert on("cuda", 13_426) == on("cuda:1", 13_426) > 100
    assert on("cuda", 11_000_000) == on("cpu", 13_426) == 0
