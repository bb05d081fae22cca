"""Procedures at once: the same results in any order of finishing, and nothing done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trilemma.execution.journal import Run
from trilemma.execution.pool import Job, Spent, WorkerPool
from trilemma.execution.scheduler import Procedure, Scheduler, together


@dataclass(frozen=True)
class Square:
    number: int

    @property
    def key(self) -> str:
        return str(self.number)

    @property
    def label(self) -> str:
        return f"the square of {self.number}"


DONE: Counter[int] = Counter()


def make_work() -> Callable[[Square], bytes]:
    def work(job: Square) -> bytes:
        DONE[job.number] += 1
        return str(job.number**2).encode()

    return work


def chain(start: int) -> Procedure[int]:
    """Each result decides the next jobs, as in a calibration."""
    value = start
    for _ in range(3):
        value = sum((yield [Square(value % 7), Square(value % 5)]))
    return value


def expected(start: int) -> int:
    value = start
    for _ in range(3):
        value = (value % 7) ** 2 + (value % 5) ** 2
    return value


@pytest.mark.parametrize("workers", [1, 2])
def test_procedures_end_as_if_alone(workers: int) -> None:
    with WorkerPool[Any](make_work, workers=workers) as pool:
        found = Scheduler(pool, int).run_all({str(n): chain(n) for n in range(6)})
    assert found == {str(n): expected(n) for n in range(6)}
    assert list(found) == [str(n) for n in range(6)], "in their order, whichever ends first"


def test_no_job_is_done_twice_and_a_run_is_taken_up(tmp_path: Path) -> None:
    DONE.clear()
    for _ in range(2):
        with Run.open(tmp_path, {}) as run, WorkerPool[Any](make_work, workers=1) as pool:
            scheduler = Scheduler(pool, int, run=run)
            found = scheduler.run_all({"a": chain(3), "b": chain(4)})
            assert scheduler.run_all({"again": chain(3)}) == {"again": expected(3)}
    assert found == {"a": expected(3), "b": expected(4)}
    assert set(DONE.values()) == {1}
    log = "\n".join(run.log.lines())
    assert log.count("a finished on") == 1, "an earlier process finished it"


def test_a_procedure_is_advanced_once_a_result_and_never_begun_again() -> None:
    steps: list[int] = []

    def walk() -> Procedure[int]:
        value = 2
        while value < 20:
            steps.append(value)
            (value,) = yield [Square(value)]
        return value

    with WorkerPool[Any](make_work, workers=1) as pool:
        assert Scheduler(pool, int).run_all({"walk": walk(), "b": chain(1)})["walk"] == 256
    assert steps == [2, 4, 16]


class Queue:
    """Does jobs in the order in which they are submitted, and remembers that order."""

    def __init__(self, broken: int | None = None) -> None:
        self.spent, self.order, self.broken = Spent(0.0, 0.0), list[int](), broken
        self._at = 0

    def submit(self, *jobs: Square) -> None:
        self.order.extend(job.number for job in jobs)

    def next(self) -> tuple[Square, bytes]:
        number, self._at = self.order[self._at], self._at + 1
        if number == self.broken:
            raise RuntimeError("broken")
        return Square(number), str(number**2).encode()


def both(*numbers: int) -> Procedure[list[int]]:
    return (yield [Square(number) for number in numbers])


def test_what_two_procedures_want_is_done_once() -> None:
    pool: Any = Queue()
    found = Scheduler(pool, int).run_all({"a": both(2, 3), "b": both(3, 4)})
    assert found == {"a": [4, 9], "b": [9, 16]}
    assert pool.order == [2, 3, 4]


def test_one_that_wants_nothing_returns_at_once() -> None:
    pool: Any = Queue()
    assert Scheduler(pool, int).run_all({"none": both()}) == {"none": []}
    assert Scheduler(pool, int).run_all({}) == {}


def test_an_error_of_a_procedure_is_raised() -> None:
    def bad() -> Procedure[int]:
        yield [Square(1)]
        raise ZeroDivisionError

    with WorkerPool[Any](make_work, workers=1) as pool, pytest.raises(ZeroDivisionError):
        Scheduler(pool, int).run_all({"bad": bad()})


def test_an_error_of_a_job_ends_the_call_and_what_was_done_is_kept(tmp_path: Path) -> None:
    pool: Any = Queue(broken=4)
    with Run.open(tmp_path, {}) as run, pytest.raises(RuntimeError, match="broken"):
        Scheduler(pool, int, run=run).run_all({"a": both(2, 4), "b": both(5)})
    with Run.open(tmp_path, {}) as run:
        pool = Queue()
        assert Scheduler(pool, int, run=run).run_all({"a": both(2, 4)}) == {"a": [4, 16]}
    assert pool.order == [4]


class Seen:
    """Remembers what a watcher is told, and what was submitted by then."""

    def __init__(self, pool: Queue) -> None:
        self.told: list[Any] = []
        self._pool = pool

    def kept(self, procedure: str, job: Job) -> None:
        self.told.append(("kept", procedure, job.key))

    def begun(self, procedure: str, job: Job) -> None:
        self.told.append(("begun", procedure, job.key))

    def finished(self, job: Job, result: Any, spent: Spent) -> None:
        self.told.append(("finished", job.key, result, list(self._pool.order)))

    def ended(self, procedure: str) -> None:
        self.told.append(("ended", procedure))


def test_a_watcher_is_told_of_each_job_once_and_when_workers_have_the_next(tmp_path: Path) -> None:
    def chained() -> Procedure[None]:
        yield [Square(2)]
        yield [Square(2), Square(3)]

    pool: Any = Queue()
    seen = Seen(pool)
    with Run.open(tmp_path, {}) as run:
        run.commit(Square(5).key, b"25")
        procedures = {"a": chained(), "b": both(2, 5)}
        Scheduler(pool, int, run=run, watcher=seen).run_all(procedures)
    assert seen.told == [
        ("begun", "a", "2"),
        ("kept", "b", "5"),
        ("begun", "a", "3"),
        ("ended", "b"),
        ("finished", "2", 4, [2, 3]),
        ("ended", "a"),
        ("finished", "3", 9, [2, 3]),
    ]


def test_several_as_one_want_what_each_wants_at_the_same_time() -> None:
    pool: Any = Queue()
    ones = [chain(3), both(), both(6)]
    found = Scheduler(pool, int).run_all({"all": together(ones)})
    assert found == {"all": [expected(3), [], [36]]}
    assert pool.order[:2] == [3, 6]
    assert Scheduler(pool, int).run_all({"none": together([])}) == {"none": []}
