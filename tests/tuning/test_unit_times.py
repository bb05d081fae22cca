"""Speeds are measured in a process of their own, which is ended when it takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import pytest
from tests.cli.own_scenario import small

from trilemma.execution.pool import WorkerPool
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, Job
from trilemma.scenarios import load_scenario
from trilemma.tuning import unit_times
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.time_left import Kind

SPEC = "tests.cli.own_scenario:small"


@dataclass(frozen=True)
class Slow(JobRunner):
    """Takes its time: dlg far too long, all else .01 s a game or round; 1 s for a first game."""

    def __call__(self) -> Callable[[Job], bytes]:
        known: set[tuple[str, ...]] = set()
        time.process_time = time.monotonic  # in this process: it sleeps where others would compute

        def work(task: Job) -> bytes:
            if isinstance(task, AttackJob):
                first = task.attacks not in known
                known.add(task.attacks)
                time.sleep(30 if task.attacks == ("dlg",) else first + 0.01 * task.count)
            else:
                time.sleep(0.01 * task.rounds)
            return b""

        return work


ONE, SLOW, OTHER = (Kind("games", (name,), 1, "plain") for name in ("map", "dlg", "idlg"))
LONG, PAILLIER = Kind("games", ("map",), 60, "plain"), Kind("timings", (), 1, "paillier")
TRAINING = Kind("trainings", (), 100, "plain")


def measured(*kinds: Kind, others: Iterable[Kind] = ()) -> tuple[unit_times.Timed, list[str]]:
    plan = Plan.of(small(), Request())
    told: list[str] = []
    with WorkerPool[Job](Slow(partial(load_scenario, SPEC), None, 1, 20, 0), workers=2) as pool:
        pool.submit(unit_times.FIRST)
        return unit_times.timed(pool, plan, kinds, others, told.append), told


def test_what_is_done_for_the_first_time_does_not_count() -> None:
    found, told = measured(TRAINING, ONE, others=(LONG, PAILLIER))
    assert not found.stopped
    assert 0.01 <= found.seconds[ONE] < 0.1, "per game, of several, once warm"
    assert 0.06 <= found.seconds[LONG] < 0.6, "of ten rounds, times six"
    assert 0.3 <= found.seconds[TRAINING] < 5, "a line through a few rounds"
    assert 0.01 <= found.seconds[PAILLIER] < 0.1
    assert 0.9 < found.once < 2, "the first game, once"
    assert told[0] == "starting a process to time in"
    assert told[2] == "timing map on single messages of one round"


def test_after_what_is_too_slow_a_fresh_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_times, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(unit_times, "_LEAST_S", 2.0)
    found, _ = measured(ONE, SLOW, OTHER)
    assert found.stopped == {SLOW}
    assert found.seconds[SLOW] == 0.0, "nobody knows how much was for the first time"
    assert 0.01 <= found.seconds[OTHER] < 0.1


def test_there_is_an_end_to_what_need_not_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_times, "_ENOUGH_S", -1.0)
    found, told = measured(ONE, others=(OTHER,))
    assert set(found.seconds) == {ONE}
    assert len(told) == 2
