"""Leakage and costs against strength: the points drawn are the points measured."""

from __future__ import annotations

import numpy as np
from tests.reporting import examples

from trilemma.reporting.figures.curve_figures import draw_costs, draw_leakage
from trilemma.reporting.page.panels import bare_panels, verdict_panels


def test_leakage_is_drawn_where_it_was_measured() -> None:
    verdict = examples.verdict()
    panels = verdict_panels(verdict)
    axes = draw_leakage(verdict.curves, panels, 0.3).axes
    assert len(axes) == len(panels)
    for drawn, panel in zip(axes, panels, strict=True):
        found = [verdict.curves[place].leakage for _, place in panel.points]
        measured = [item.value for item in found if item is not None]
        assert np.asarray(drawn.lines[0].get_ydata()).tolist() == measured
        assert [0.3, 0.3] in [np.asarray(line.get_ydata()).tolist() for line in drawn.lines]


def test_costs_are_multiples_of_no_protection() -> None:
    points = examples.curves(points=5)
    panels = bare_panels(points)
    axes = draw_costs(points, panels, "accuracy").axes
    assert len(axes) == 2 * len(panels)
    seconds = axes[len(panels)].lines[0]
    bare = points[0].seconds
    assert bare is not None
    measured = [points[place].seconds for _, place in panels[0].points]
    expected = [item / bare for item in measured if item is not None]
    assert np.allclose(np.asarray(seconds.get_ydata(), dtype=float), expected)


def test_nothing_is_drawn_for_a_budget_that_nobody_asked_for() -> None:
    points = examples.curves(points=3)
    labels = [
        line.get_label()
        for axes in draw_leakage(points, bare_panels(points), None).axes
        for line in axes.lines
    ]
    assert "budget" not in labels
