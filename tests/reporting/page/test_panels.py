"""Axes from weak to strong, and where the marks lie on them."""

from __future__ import annotations

import math

import pytest
from tests.reporting import examples, training

from trilemma.reporting.page.panels import Axis, bare_panels, verdict_panels


def test_points_lie_where_their_strength_is() -> None:
    points = examples.curves(points=7)
    panels = bare_panels(points)
    assert [panel.family for panel in panels] == list(examples.TUNED)
    for panel in panels:
        assert [x for x, _ in panel.points] == pytest.approx(
            [points[place].place for _, place in panel.points]
        )
        assert {points[place].family for _, place in panel.points} == {panel.family}


@pytest.mark.parametrize(
    ("weak", "strong", "labels"),
    [
        (1e-6, 1e-2, ["1e-6", "1e-5", "0.0001", "0.001", "0.01"]),
        (1.0, 4e-4, ["1", "0.1", "0.01", "0.001"]),
        (0.9, 0.08, ["0.5", "0.2", "0.1"]),
        (0.19, 0.11, ["0.19", "0.11"]),
    ],
)
def test_ticks_are_round_and_run_from_weak_to_strong(
    weak: float, strong: float, labels: list[str]
) -> None:
    axis = Axis(math.log10(weak), math.log10(strong))
    ticks = axis.ticks()
    assert [label for _, label in ticks] == labels
    for x, label in ticks:
        assert weak * (strong / weak) ** x == pytest.approx(float(label))


def test_the_marks_of_a_verdict() -> None:
    panels = {panel.family: panel for panel in verdict_panels(examples.verdict())}
    noise = panels["randomization"]
    assert [mark.kind for mark in noise.marks] == ["tested"]
    inside = panels["randomization+secret-sharing"]
    assert [mark.kind for mark in inside.marks] == ["verdict"]
    assert inside.marks[0].x == pytest.approx((math.log10(examples.VALUE) + 5) / 4)
    assert panels["compression"].marks == (), "what was tested for one round only claims nothing"


def test_a_certificate_stands_on_the_curve_of_its_noise() -> None:
    found = [
        (panel.family, mark.x)
        for panel in verdict_panels(training.over_rounds())
        for mark in panel.marks
        if mark.kind == "certificate"
    ]
    assert [name for name, _ in found] == ["randomization+secret-sharing"]
    assert found[0][1] == pytest.approx((math.log10(0.000832) + 5) / 4)
