"""A front on a terminal: its knee, its reading, and the points that could not be measured."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.reporting import examples

from trilemma.reporting.words.front_text import front_attacker, show_front


def test_the_front_fits_and_marks_its_knee(capsys: pytest.CaptureFixture[str]) -> None:
    front = examples.front()
    show_front(front)
    text = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    flat = re.sub(r"\s+", " ", text)
    assert f"Front: {len(front.front)} of {len(front.points)} points" in flat
    assert front_attacker(front) in flat
    assert len(re.findall(r"^  \* ", text, re.MULTILINE)) == 2, "in the table and where it is read"
    for sentence in front.limits:
        assert sentence in flat


def test_points_without_costs_are_counted_and_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    front = examples.front()
    idle = next(n for n in range(len(front.points)) if n not in front.front)
    points = list(front.points)
    points[idle] = replace(points[idle], utility_loss=None)
    show_front(replace(front, points=tuple(points)))
    assert "1 point cannot be run or trained" in re.sub(r"\s+", " ", capsys.readouterr().out)
