import io
from dataclasses import dataclass

from trilemma.execution.pool import Spent
from trilemma.execution.progress import Progress, Ticker


@dataclass(frozen=True)
class Attack:
    label: str = "dlg on none"
    count: int = 16

    @property
    def key(self) -> str:
        return self.label


def ten(result: bytes) -> tuple[int, int]:
    """Every result stands for ten units; it says how many were recovered."""
    return 10, int(result)


SECOND = Spent(1.0, 1.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_plain_line_every_few_seconds() -> None:
    sink = io.StringIO()
    now = [0.0]
    with Progress("attack", ten, total=100, stream=sink, clock=lambda: now[0]) as progress:
        for _ in range(10):
            progress.begun("a", Attack())
            now[0] += 1.0
            progress.finished(Attack(), b"5", SECOND)
    lines = sink.getvalue().splitlines()
    assert lines == [
        "attack: 0 of 100 updates",
        "attack: 50 of 100 updates, 50.0 % recovered, 10.0 updates/s, 5 s left",
        "attack: 100 of 100 updates, 50.0 % recovered, 10.0 updates/s",
        "attack: 100 of 100 updates, 50.0 % recovered, 10.0 updates/s",
    ]


def test_resumed_units_count_as_done_but_not_for_the_rate() -> None:
    sink = io.StringIO()
    ticks = iter([0.0, 1.0, 1.0])
    with Progress(
        "attack", ten, total=100, done=80, successes=80, stream=sink, clock=lambda: next(ticks)
    ) as progress:
        progress.finished(Attack(), b"0", SECOND)
    assert (
        sink.getvalue()
        == "attack: 90 of 100 updates, 88.9 % recovered, 10.0 updates/s, 1 s left\n"
    )


def test_a_terminal_gets_a_bar() -> None:
    sink = Terminal()
    with Progress("attack", ten, total=40, stream=sink) as progress:
        progress.begun("a", Attack())
        assert "0 of 40 updates" in sink.getvalue(), "at once"
        progress.finished(Attack(), b"5", SECOND)
    assert "━" in sink.getvalue()
    assert "10 of 40 updates" in sink.getvalue()


def test_quiet_and_nothing_to_do_print_nothing() -> None:
    sink = io.StringIO()
    with Progress("attack", ten, total=40, quiet=True, stream=sink) as progress:
        progress.begun("a", Attack())
        progress.finished(Attack(), b"5", SECOND)
    with Progress("attack", ten, total=40, done=40, stream=sink):
        pass
    assert sink.getvalue() == ""


def test_a_ticker_says_at_once_what_it_does_and_obeys_no_name() -> None:
    sink = io.StringIO()
    now = [0.0]
    with Ticker("tune", stream=sink, clock=lambda: now[0]) as ticker:
        for second in (1.0, 6.0):
            ticker.begun("a", Attack("\x1b[2Jdlg on none"))
            now[0] = second
            ticker.finished(Attack("\x1b[2Jdlg on none"), b"", SECOND)
    assert sink.getvalue().splitlines() == [
        r"tune: begins with \x1b[2Jdlg on none",
        r"tune: 32 games played in 6 s; \x1b[2Jdlg on none",
        "tune: done: 32 games in 6 s",
    ]


class Known:
    """Remembers what it is told, and says that a minute or two are left."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def kept(self, procedure: str, job: Attack) -> None:
        self.seen.append(f"kept {job.label} of {procedure}")

    def begun(self, procedure: str, job: Attack) -> None:
        self.seen.append(f"begun {job.label} of {procedure}")

    def finished(self, job: Attack, spent: Spent) -> None:
        self.seen.append(f"{job.label} in {spent.cpu:g} s")

    def ended(self, procedure: str) -> None:
        self.seen.append(f"ended {procedure}")

    def said(self) -> str:
        return "1 to 2 min left"


def test_a_ticker_with_an_outlook_says_what_is_left_and_goes_on_after_a_resume() -> None:
    sink, known, now = io.StringIO(), Known(), [0.0]
    with Ticker("tune", stream=sink, clock=lambda: now[0]) as ticker:
        ticker.say("reading")
        now[0] = 5.0
        ticker.beat()
        ticker.expect(known)
        ticker.kept("noise", Attack("a"))
        ticker.begun("noise", Attack("b"))
        now[0] = 12.0
        ticker.beat()
        ticker.finished(Attack("b"), b"", Spent(8.0, 7.0))
        ticker.ended("noise")
    assert sink.getvalue().splitlines() == [
        "tune: reading",
        "tune: reading, 5 s so far",
        "tune: goes on after 16 games with b",
        "tune: 0 games played in 12 s, 1 to 2 min left; b",
        "tune: done: 16 games in 12 s",
    ]
    assert known.seen == ["kept a of noise", "begun b of noise", "b in 7 s", "ended noise"]


def test_the_first_chunk_is_not_silent() -> None:
    sink, now = io.StringIO(), [0.0]
    with Progress("attack", ten, total=20, stream=sink, clock=lambda: now[0]) as progress:
        progress.begun("a", Attack())
        now[0] = 8.0
        progress.beat()
    assert sink.getvalue().splitlines()[-1] == "attack: 0 of 20 updates; 8 s so far"


def test_lines_on_a_pipe_grow_rarer() -> None:
    ticker = Ticker("tune", stream=io.StringIO(), clock=lambda: 0.0)
    assert [ticker.pause(now) for now in (1.0, 200.0, 4000.0)] == [5.0, 15.0, 60.0]
