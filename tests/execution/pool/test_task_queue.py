"""Tasks that share a call: one payload each, and whose fault an error is."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.execution.pool.faking import FakeRay, RayTaskError
from tests.execution.pool.number_tasks import Number, make_square

from trilemma.errors import InvalidInput
from trilemma.execution.pool.base import Joint, WorkerDied
from trilemma.execution.pool.process_pool import WorkerPool
from trilemma.execution.pool.ray_pool import Cluster
from trilemma.execution.pool.task_queue import Try, Waiting, name_of


@dataclass(frozen=True)
class Make:
    """Even numbers can share a call, at most `most`; a call writes down what it was given.

    The number 6 is an error of the task, and 8 kills its worker; 4 does so once, where it is not
    alone.
    """

    folder: Path
    most: int = 3

    def joins(self, tasks: Sequence[Number], other: Number) -> bool:
        even = all(task.number % 2 == 0 for task in (*tasks, other))
        return even and len(tasks) < self.most

    def __call__(self) -> Joint[Number]:
        return Joint(lambda task: self.together([task])[0], self.together)

    def together(self, tasks: Sequence[Number]) -> list[bytes]:
        numbers = [task.number for task in tasks]
        with (self.folder / "calls").open("a") as file:
            file.write(f"{numbers}\n")
        if 6 in numbers:
            raise InvalidInput("six is refused.")
        if 8 in numbers or (4 in numbers and len(numbers) > 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return [str(number**2).encode() for number in numbers]


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay())


def here(make: Any) -> WorkerPool[Number]:
    return WorkerPool(make, workers=1)


def processes(make: Any) -> WorkerPool[Number]:
    return WorkerPool(make, workers=2)


def ray(make: Any) -> Cluster[Number]:
    return Cluster(make, address="auto", workers=2)


@pytest.mark.parametrize("place", [here, processes, ray])
def test_each_task_has_its_own_payload(
    place: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch)
    numbers = [0, 1, 2, 3, 10, 12, 14]
    with place(Make(tmp_path)) as pool:
        pool.submit(*map(Number, numbers))
        found = dict(pool.next() for _ in numbers)
    assert found == {Number(n): str(n**2).encode() for n in numbers}
    assert sorted(calls(tmp_path)) == ["[0, 2, 10]", "[12, 14]", "[1]", "[3]"]


@pytest.mark.parametrize("place", [here, processes, ray])
def test_an_error_is_the_fault_of_one(
    place: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch)
    with place(Make(tmp_path)) as pool:
        pool.submit(Number(2), Number(6), Number(10))
        seen: list[Any] = []
        for _ in range(3):
            try:
                seen.append(pool.next())
            except InvalidInput as error:
                seen.append(("refused", str(error)))
    assert set(seen) == {
        (Number(2), b"4"),
        ("refused", "six is refused."),
        (Number(10), b"100"),
    }
    assert calls(tmp_path)[0] == "[2, 6, 10]"


def test_who_dies_on_several_tasks_does_each_alone(tmp_path: Path) -> None:
    with processes(Make(tmp_path)) as pool:
        pool.submit(Number(2), Number(4))
        assert dict(pool.next() for _ in range(2)) == {Number(2): b"4", Number(4): b"16"}
        assert sorted(calls(tmp_path)) == ["[2, 4]", "[2]", "[4]"]
        pool.submit(Number(8), Number(10))
        with pytest.raises(WorkerDied, match=r"died on number 8, the last"):
            [pool.next() for _ in range(2)]


def test_who_makes_no_claim_joins_nothing() -> None:
    waiting: Waiting[Number] = Waiting(make_square)
    for number in range(3):
        waiting.append(Number(number))
    assert [waiting.take().tasks for _ in range(3)] == [(Number(n),) for n in range(3)]


def test_what_was_tried_comes_first_and_alone(tmp_path: Path) -> None:
    waiting: Waiting[Number] = Waiting(Make(tmp_path))
    for number in (0, 2, 4):
        waiting.append(Number(number))
    tried = waiting.take()
    waiting.append(Number(10))
    waiting.put_back(tried.apart())
    assert [waiting.take().tasks[0].number for _ in range(4)] == [0, 2, 4, 10]
    assert not waiting


def test_the_third_death_is_too_many() -> None:
    twice = Try((Number(7),)).again("exit code -9").again("exit code -9")
    assert twice.deaths == 2
    with pytest.raises(WorkerDied, match=r"^3 worker processes died on number 7, .*code -11"):
        twice.again("exit code -11")
    assert name_of([Number(7)]) == "number 7"
    assert name_of([Number(7), Number(8)]) == "number 7 and 1 more"


@dataclass(frozen=True)
class Odd:
    """All share a call, of which something is wrong."""

    kind: str = ""

    def joins(self, tasks: Sequence[Number], other: Number) -> bool:
        return True

    def __call__(self) -> Joint[Number]:
        if self.kind == "unmade":
            raise InvalidInput("no scenario.")
        return Joint(lambda task: b"1", self.together)

    def together(self, tasks: Sequence[Number]) -> list[bytes]:
        if self.kind == "fails":
            raise ValueError("no")
        return [b"1"] * (len(tasks) - (self.kind == "short"))


def answered(pool: Any, count: int) -> int:
    """How many tasks were done, each once, or failed."""
    done, failed = set(), 0
    for _ in range(count):
        try:
            done.add(pool.next()[0])
        except (InvalidInput, RuntimeError):
            failed += 1
    return len(done) + failed


@pytest.mark.parametrize("place", [here, processes, ray])
@pytest.mark.parametrize("kind", ["short", "unmade", "fails"])
def test_no_task_of_a_call_is_lost(
    place: Callable[[Any], Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch)
    with place(Odd(kind)) as pool:
        pool.submit(*map(Number, range(3)))
        assert answered(pool, 3) == 3


def test_a_call_that_ray_loses_is_the_fault_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = FakeRay(trouble={"number": [RayTaskError("lost")]})
    monkeypatch.setitem(sys.modules, "ray", lost)
    with ray(Odd()) as pool:
        pool.submit(*map(Number, range(3)))
        assert answered(pool, 3) == 3
