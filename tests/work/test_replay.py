"""Procedures at once, by replay: same results in any order of finishing, nothing done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trilemma.work.executors import Crew
from trilemma.work.journal import Run
from trilemma.work.replay import Ahead, Ask, hand_out_early, settle


@dataclass(frozen=True)
class Square:
    number: int

    def key(self) -> tuple[str, int]:
        return "square", self.number


DONE: Counter[int] = Counter()


def make_work() -> Callable[[Square], bytes]:
    def work(task: Square) -> bytes:
        DONE[task.number] += 1
        return str(task.number**2).encode()

    return work


def chain(start: int) -> Callable[[Ask], int]:
    """Each answer decides the next question, as in a calibration."""

    def procedure(ask: Any) -> int:
        value = start
        for _ in range(3):
            value = sum(int(answer) for answer in ask([Square(value % 7), Square(value % 5)]))
        return value

    return procedure


def expected(start: int) -> int:
    value = start
    for _ in range(3):
        value = (value % 7) ** 2 + (value % 5) ** 2
    return value


@pytest.mark.parametrize("workers", [1, 2])
def test_procedures_end_as_if_alone(workers: int) -> None:
    with Crew[Any](make_work, workers=workers) as crew:
        found = settle({str(n): chain(n) for n in range(6)}, crew)
    assert found == {str(n): expected(n) for n in range(6)}


def test_no_task_is_done_twice_and_a_run_is_taken_up(tmp_path: Path) -> None:
    DONE.clear()
    for _ in range(2):
        with Run.open(tmp_path, {}) as run, Crew[Any](make_work, workers=1) as crew:
            found = settle({"a": chain(3), "b": chain(4)}, crew, run=run)
    assert found == {"a": expected(3), "b": expected(4)}
    assert set(DONE.values()) == {1}


def test_an_error_of_a_procedure_is_raised() -> None:
    def bad(ask: Any) -> int:
        ask([Square(1)])
        raise ZeroDivisionError

    with Crew[Any](make_work, workers=1) as crew, pytest.raises(ZeroDivisionError):
        settle({"bad": bad}, crew)


class Queue:
    """Does tasks in the order in which they are submitted, and remembers that order."""

    def __init__(self, broken: int | None = None) -> None:
        self.spent, self.order, self.broken = 0.0, list[int](), broken
        self.failed: Square | None = None
        self._at = 0

    def submit(self, *tasks: Square) -> None:
        self.order.extend(task.number for task in tasks)

    def next(self) -> tuple[Square, bytes]:
        number, self._at = self.order[self._at], self._at + 1
        self.failed = Square(number)
        if number == self.broken:
            raise RuntimeError("broken")
        return Square(number), str(number**2).encode()


def walk(ask: Any) -> int:
    """Asks for 1, then for the square of each answer, up to 16."""
    value = 2
    while value < 20:
        (answer,) = ask([Square(value)])
        value = int(answer)
    return value


def test_idle_workers_do_what_is_asked_for_next(tmp_path: Path) -> None:
    crew: Any = Queue()
    right = Ahead(3, lambda task: str(task.number**2).encode())
    with Run.open(tmp_path, {}) as run:
        assert settle({"walk": walk}, crew, run=run, ahead=right) == {"walk": 256}
    assert crew.order == [2, 4, 16]


def test_what_rests_on_fewer_guesses_goes_first() -> None:
    """16 is wanted if 2 and 4 answer as guessed; 7 is wanted next whatever is found."""
    crew: Any = Queue()
    right = Ahead(3, lambda task: str(task.number**2).encode())

    def then(_: object) -> dict[str, Any]:
        return {"later": lambda ask: ask([Square(7)])}

    known: dict[tuple[str, int], bytes] = {}
    assert settle({"walk": walk}, crew, known=known, ahead=right, then=then) == {"walk": 256}
    assert crew.order == [2, 4, 7, 16]
    assert Square(7).key() not in known, "nobody has asked for it yet"
    assert settle(then({}), crew, known=known, ahead=right) == {"later": [b"49"]}
    assert crew.order == [2, 4, 7, 16], "it was done before"


def test_what_comes_then_is_asked_with_the_results_so_far() -> None:
    crew: Any = Queue()
    heard: list[dict[str, Any]] = []

    def then(found: Mapping[str, Any]) -> dict[str, Any]:
        heard.append(dict(found))
        return {}

    short: Any = lambda ask: ask([Square(3)])  # noqa: E731
    both = {"walk": walk, "short": short}
    settle(both, crew, ahead=Ahead(2, lambda _: b"25"), then=then)
    assert heard[0] == {}
    assert {"short": [b"9"]} in heard
    assert heard[-1].keys() == {"short", "walk"}
    heard.clear()
    settle(both, Queue(), then=then)  # type: ignore[arg-type]  # nobody works ahead
    assert heard == []


def test_a_guess_that_turned_out_wrong_is_not_built_upon() -> None:
    """Once 2 has answered 4, no more is begun of what 99 would have led to."""

    def course(ask: Any) -> Any:
        (answer,) = ask([Square(2)])
        return ask([Square(3)] if answer == b"4" else [Square(n) for n in range(50, 60)])

    crew: Any = Queue()
    assert settle({"course": course}, crew, ahead=Ahead(3, lambda _: b"99")) == {"course": [b"9"]}
    assert crew.order == [2, 50, 51, 3]


def test_what_rests_on_many_guesses_is_not_begun() -> None:
    """Of a chain of ten the first is wanted, and the six behind it are worth a try."""
    away: list[int] = []

    class Watched(Queue):
        def next(self) -> tuple[Square, bytes]:
            away.append(len(self.order) - self._at)
            return super().next()

    def chain_of_ten(ask: Any) -> int:
        return sum(int(ask([Square(number)])[0]) for number in range(10))

    right = Ahead(99, lambda task: str(task.number**2).encode())
    crew: Any = Watched()
    assert settle({"chain": chain_of_ten}, crew, ahead=right) == {"chain": 285}
    assert max(away) == 7


def test_a_wrong_guess_leaves_no_trace(tmp_path: Path) -> None:
    crew: Any = Queue()
    wrong = Ahead(2, lambda task: str(task.number + 1).encode())
    with Run.open(tmp_path, {}) as run:
        assert settle({"walk": walk}, crew, run=run, ahead=wrong) == {"walk": 256}
        assert crew.order[:2] == [2, 3]
        assert len(crew.order) > 3
        assert sorted(run.committed("square")) == [2, 4, 16]


def test_an_error_counts_where_its_task_is_wanted() -> None:
    def wrong() -> Ahead:
        return Ahead(2, lambda task: str(task.number + 1).encode())

    nobody: Any = Queue(broken=3)
    assert settle({"walk": walk}, nobody, ahead=wrong()) == {"walk": 256}
    wanted: Any = Queue(broken=4)
    with pytest.raises(RuntimeError, match="broken"):
        settle({"walk": walk}, wanted, ahead=wrong())


def test_a_task_that_failed_is_done_again_by_who_asks_again() -> None:
    crew: Any = Queue(broken=4)
    ahead = Ahead(2, lambda task: str(task.number**2).encode())
    with pytest.raises(RuntimeError, match="broken"):
        settle({"walk": walk}, crew, ahead=ahead)
    crew.broken = None
    assert settle({"walk": walk}, crew, ahead=ahead) == {"walk": 256}


def test_a_guess_at_which_a_procedure_breaks_is_no_error() -> None:
    crew: Any = Queue()
    assert settle({"walk": walk}, crew, ahead=Ahead(3, lambda _: b"")) == {"walk": 256}


def test_what_is_under_way_when_a_call_ends_comes_back_in_the_next() -> None:
    crew: Any = Queue()
    ahead = Ahead(2, lambda task: b"19" if task.number == 16 else b"3")
    known: dict[tuple[str, int], bytes] = {}
    assert settle({"walk": walk}, crew, known=known, ahead=ahead) == {"walk": 256}
    left = set(ahead.away)
    assert left, "a guess was wrong"
    settle({"other": lambda ask: ask([Square(5)])}, crew, known=known, ahead=ahead)
    assert not ahead.away
    (again,) = (number for _, number in left)
    settle({"asked": lambda ask: ask([Square(again)])}, crew, known=known, ahead=ahead)
    assert crew.order.count(again) == 1
    assert known[Square(again).key()] == str(again**2).encode()


def test_what_was_done_early_in_one_call_serves_a_later_one() -> None:
    """The first call guesses that 5 will be wanted, and ends without it; the third wants it."""

    def unsure(ask: Any) -> bytes:
        (answer,) = ask([Square(2)])
        return answer if answer != b"99" else ask([Square(5)])[0]  # type: ignore[no-any-return]

    crew: Any = Queue()
    ahead = Ahead(2, lambda _: b"99")
    assert settle({"unsure": unsure}, crew, ahead=ahead) == {"unsure": b"4"}
    assert ahead.away == {("square", 5)}
    assert settle({"walk": walk}, crew, ahead=ahead) == {"walk": 256}
    assert settle({"five": lambda ask: ask([Square(5)])}, crew, ahead=ahead) == {"five": [b"25"]}
    assert crew.order.count(5) == 1


def test_the_error_of_a_wanted_task_is_told_at_once() -> None:
    """Whatever else is under way; and one that came early is told when its task is wanted."""
    crew: Any = Queue(broken=4)
    right = Ahead(3, lambda task: str(task.number**2).encode())
    with pytest.raises(RuntimeError, match="broken"):
        settle({"walk": walk}, crew, ahead=right)
    assert crew.order == [2, 4, 16]
    assert len(crew.order) - crew._at == 1, "16 is still under way"


def test_an_error_that_is_no_tasks_ends_the_call() -> None:
    class Lost(Queue):
        def next(self) -> tuple[Square, bytes]:
            raise RuntimeError("no worker can be started")

    crew: Any = Lost()
    with pytest.raises(RuntimeError, match="no worker"):
        settle({"walk": walk}, crew, ahead=Ahead(3, lambda _: b"99"))


def test_what_is_begun_early_is_done_once_and_not_again_in_a_run_taken_up(tmp_path: Path) -> None:
    DONE.clear()
    procedures = {
        "two": lambda ask: ask([Square(2), Square(3)]) + ask([Square(5)]),
        "one": lambda ask: ask([Square(4)]),
    }
    for workers, begun in ((2, {2, 3}), (3, set())):
        with Run.open(tmp_path, {}) as run, Crew[Any](make_work, workers=1) as crew:
            ahead = Ahead(workers, lambda _: b"0")
            hand_out_early(procedures.values(), crew, run=run, ahead=ahead)
            assert ahead.away == {("square", each) for each in begun}
            found = settle(procedures, crew, run=run, ahead=ahead)
            assert found == {"two": [b"4", b"9", b"25"], "one": [b"16"]}
    assert DONE == {2: 1, 3: 1, 4: 1, 5: 1}


def test_a_run_taken_up_begins_where_its_procedures_are(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}) as run:
        run.commit(*Square(1).key(), b"1")
        run.commit(*Square(2).key(), b"4")
        ahead = Ahead(9, lambda _: b"0")
        crew: Any = Queue()
        hand_out_early([walk, walk], crew, run=run, ahead=ahead)
    assert ahead.away == {("square", 4)}
    assert crew.order == [4], "once, though two ask for it"


def test_a_procedure_that_breaks_is_told_by_who_waits_for_it() -> None:
    def broken(ask: Ask) -> None:
        raise ValueError("broken")

    crew: Any = Queue()
    ahead = Ahead(9, lambda _: b"0")
    hand_out_early([broken, walk], crew, run=None, ahead=ahead)
    assert len(ahead.away) == 1
    with pytest.raises(ValueError, match="broken"):
        settle({"broken": broken}, crew, ahead=ahead)


def test_what_has_ended_is_told_once_workers_have_the_next() -> None:
    """To count what is left takes a while, in which nobody should wait for a task."""
    crew: Any = Queue()
    told: list[tuple[int, list[int]]] = []

    class Slow:
        def kept(self, task: Square) -> None: ...

        def begun(self, task: Square) -> None: ...

        def finished(self, task: Square, payload: bytes, seconds: float) -> None:
            told.append((task.number, list(crew.order)))

    ticker: Any = Slow()
    assert settle({"walk": walk}, crew, ticker=ticker) == {"walk": 256}
    assert told == [(2, [2, 4]), (4, [2, 4, 16]), (16, [2, 4, 16])]
