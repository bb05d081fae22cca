import io

from trilemma.work.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_a_plain_line_every_few_seconds() -> None:
    sink = io.StringIO()
    now = [0.0]
    with Progress("attack", total=100, stream=sink, clock=lambda: now[0]) as progress:
        for _ in range(10):
            now[0] += 1.0
            progress.advance(10, successes=5)
    lines = sink.getvalue().splitlines()
    assert lines == [
        "attack: 50 of 100 units, 50.0 % recovered, 10.0 units/s, 5 s left",
        "attack: 100 of 100 units, 50.0 % recovered, 10.0 units/s",
        "attack: 100 of 100 units, 50.0 % recovered, 10.0 units/s",
    ]


def test_resumed_units_count_as_done_but_not_for_the_rate() -> None:
    sink = io.StringIO()
    ticks = iter([0.0, 1.0, 1.0])
    with Progress(
        "attack", total=100, done=80, successes=80, stream=sink, clock=lambda: next(ticks)
    ) as progress:
        progress.advance(10, successes=0)
    assert sink.getvalue() == "attack: 90 of 100 units, 88.9 % recovered, 10.0 units/s, 1 s left\n"


def test_a_terminal_gets_a_bar() -> None:
    sink = Terminal()
    with Progress("attack", total=4, stream=sink) as progress:
        progress.advance(2, successes=1)
    assert "━" in sink.getvalue()
    assert "2 of 4 units" in sink.getvalue()


def test_quiet_and_nothing_to_do_print_nothing() -> None:
    sink = io.StringIO()
    with Progress("attack", total=4, quiet=True, stream=sink) as progress:
        progress.advance(4, successes=1)
    with Progress("attack", total=4, done=4, stream=sink):
        pass
    assert sink.getvalue() == ""
