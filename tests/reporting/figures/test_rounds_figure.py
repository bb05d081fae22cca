"""Leakage against rounds: the points that were given, with intervals where they were measured."""

from __future__ import annotations

import numpy as np
from tests.reporting import training

from trilemma.reporting.figures.rounds_figure import draw_rounds
from trilemma.reporting.page.rounds_plot import rounds_series


def test_leakage_against_rounds_draws_the_points_that_it_is_given() -> None:
    series = rounds_series(training.after_rounds())
    axes = draw_rounds(series, 0.3).axes[0]
    drawn = {str(line.get_label()): line for line in axes.lines}
    for item in series:
        line = drawn[item.name]
        assert np.asarray(line.get_xdata()).tolist() == [1, 10, 50, 150]
        values = [found.high if item.certified else found.value for _, found in item.points]
        assert np.asarray(line.get_ydata()).tolist() == values
        assert line.get_linestyle() == ("--" if item.certified else "-")
    assert len(axes.collections) == 2, "an interval for what is measured, none for what is proved"
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "10", "50", "150"]
    assert "budget" in drawn
