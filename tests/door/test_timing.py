"""Speeds are measured in a process of their own, which is ended when it takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from tests.commands.own_scenario import small

from trilemma.door import timing
from trilemma.estimation.bench import Bench
from trilemma.estimation.jobs import AttackJob, Job
from trilemma.scenarios import load_scenario
from trilemma.tuning.forecasting.kinds import Kind
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.work.executors import Crew

SPEC = "tests.commands.own_scenario:small"


@dataclass(frozen=True)
class Slow(Bench):
    """Takes its time: dlg far too long, all else .01 s a game."""

    def __call__(self) -> Callable[[Job], bytes]:
        def work(task: Job) -> bytes:
            dlg = isinstance(task, AttackJob) and task.attacks == ("dlg",)
            time.sleep(30 if dlg else 0.01 * getattr(task, "count", 1))
            return b""

        return work


def measured(*kinds: Kind) -> tuple[timing.Timed, list[str]]:
    plan = Plan.of(small(), Request())
    told: list[str] = []
    with Crew[Job](Slow(partial(load_scenario, SPEC), None, 1, 20, 0), workers=2) as crew:
        crew.submit(timing.FIRST)
        return timing.timed(crew, plan, kinds, told.append), told


def test_speeds_by_kind_until_one_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_PATIENCE_S", 0.5)
    one, slow, other = (Kind("games", (name,), 1, "plain") for name in ("map", "dlg", "idlg"))
    long, paillier = Kind("games", ("map",), 60, "plain"), Kind("timings", (), 1, "paillier")
    found, told = measured(one, long, paillier, slow, other)
    assert found.stopped == {slow}
    assert found.seconds[slow] == 0.5
    assert 0.01 <= found.seconds[one] < 0.5, "per game, of many"
    assert found.seconds[long] == pytest.approx(6 * 0.01, rel=0.9), "of ten rounds, times six"
    assert {paillier, Kind("trainings", (), 2, "plain")} < set(found.seconds)
    assert other not in found.seconds
    assert told[1] == "timing map on single messages of one round"


def test_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_ENOUGH_S", -1.0)
    found, told = measured(Kind("games", ("map",), 1, "plain"))
    assert set(found.seconds) == {Kind("trainings", (), 2, "plain")}
    assert told == ["timing a training"]
