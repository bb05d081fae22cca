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


def test_speeds_by_kind_and_what_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_PATIENCE_S", 0.5)
    plan = Plan.of(small(), Request())
    bench = Slow(partial(load_scenario, SPEC), None, 1, 20, 0)
    kinds = [Kind("games", (name,), 1, "plain") for name in ("map", "dlg", "idlg")]
    told: list[str] = []
    found = timing.timed(plan, bench, [*kinds, Kind("timings", (), 1, "paillier")], told.append)
    assert found.stopped == {kinds[1]}
    assert found.seconds[kinds[1]] == 0.5
    for each in (kinds[0], kinds[2]):
        assert 0.01 <= found.seconds[each] < 0.5, "per game, of many"
    assert Kind("timings", (), 1, "paillier") in found.seconds
    assert Kind("trainings", (), 2, "plain") in found.seconds
    assert told[1] == "timing map on single messages of one round"
    assert len(told) == 5
