"""Colours, markers and legends, alike in all figures."""

from __future__ import annotations

from trilemma.reporting.figures.style import STYLES, blank, legend, style
from trilemma.tuning.families.family import FAMILIES


def test_every_family_has_a_look_of_its_own() -> None:
    looks = [style(name) for name in FAMILIES]
    assert len(set(looks)) == len(FAMILIES)
    assert style("somebody:Else") == STYLES[-1]


def test_a_legend_says_each_thing_once() -> None:
    figure = blank(4, 3)
    line = figure.subplots(1, 2)
    for axes in line:
        axes.plot([0, 1], [0, 1], label="budget")
    line[1].plot([0, 1], [1, 0], label="verdict")
    legend(figure, line)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["budget", "verdict"]
    bare = blank(4, 3)
    legend(bare, [bare.subplots()])
    assert not bare.legends
