import io
from dataclasses import dataclass

from trilemma.work.progress import Progress, Ticker


@dataclass(frozen=True)
class Attack:
    stage: str = "dlg on none"
    count: int = 16

    def key(self) -> tuple[str, int]:
        return self.stage, 0


def ten(payload: bytes) -> tuple[int, int]:
    """Every payload stands for ten units; it says how many were recovered."""
    return 10, int(payload)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_plain_line_every_few_seconds() -> None:
    sink = io.StringIO()
    now = [0.0]
    with Progress("attack", ten, total=100, stream=sink, clock=lambda: now[0]) as progress:
        for _ in range(10):
            progress.begun(Attack())
            now[0] += 1.0
            progress.finished(Attack(), b"5", 1.0)
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
        progress.finished(Attack(), b"0", 1.0)
    assert (
        sink.getvalue()
        == "attack: 90 of 100 updates, 88.9 % recovered, 10.0 updates/s, 1 s left\n"
    )


def test_a_terminal_gets_a_bar() -> None:
    sink = Terminal()
    with Progress("attack", ten, total=40, stream=sink) as progress:
        progress.begun(Attack())
        assert "0 of 40 updates" in sink.getvalue(), "at once"
        progress.finished(Attack(), b"5", 1.0)
    assert "━" in sink.getvalue()
    assert "10 of 40 updates" in sink.getvalue()


def test_quiet_and_nothing_to_do_print_nothing() -> None:
    sink = io.StringIO()
    with Progress("attack", ten, total=40, quiet=True, stream=sink) as progress:
        progress.begun(Attack())
        progress.finished(Attack(), b"5", 1.0)
    with Progress("attack", ten, total=40, done=40, stream=sink):
        pass
    assert sink.getvalue() == ""


def test_a_ticker_says_at_once_what_it_does_and_obeys_no_name() -> None:
    sink = io.StringIO()
    now = [0.0]
    with Ticker("tune", stream=sink, clock=lambda: now[0]) as ticker:
        for second in (1.0, 6.0):
            ticker.begun(Attack("\x1b[2Jdlg on none"))
            now[0] = second
            ticker.finished(Attack("\x1b[2Jdlg on none"), b"", 1.0)
    assert sink.getvalue().splitlines() == [
        r"tune: begins with \x1b[2Jdlg on none",
        r"tune: 32 games played in 6 s; \x1b[2Jdlg on none",
    ]
