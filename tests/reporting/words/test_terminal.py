"""What all printed results share: 80 columns, and text that is no markup."""

from __future__ import annotations

import pytest

from trilemma.reporting.words.terminal import Printer


def test_everything_fits_and_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    out, long = Printer(), "word " * 40
    hostile = "[red]not markup[/red]"
    out.title(hostile)
    out.text(long)
    out.note(long)
    out.note("")
    out.bullets([long, hostile])
    out.facts([("use", hostile), ("why", long)])
    text = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert text.count(hostile) == 3
    assert text.count("word") == 4 * 40


def test_a_row_of_one_cell_is_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().table(("family", "leaks"), [("noise", "0.2"), ("a heading",), ("[b]", "0.3")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["family", "leaks"], ["noise", "0.2"], ["a", "heading"], ["[b]", "0.3"]]
