"""Axes from weak to strong, and where the marks lie on them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.reporting import examples

from trilemma.beliefs.intervals import Interval
from trilemma.protections.dp import dp_figure
from trilemma.protections.transforms.randomization import Randomization
from trilemma.reporting.panels import Axis, bare_panels, verdict_panels
from trilemma.tuning.certificate.certify import Certificate
from trilemma.tuning.results.verdict import Candidate


def test_points_lie_where_their_strength_is() -> None:
    points = examples.curves(points=7)
    panels = bare_panels(points)
    assert [panel.mechanism for panel in panels] == list(examples.TUNED)
    for panel in panels:
        assert [x for x, _ in panel.points] == pytest.approx(
            [points[place].strength for _, place in panel.points]
        )
        assert {points[place].mechanism for _, place in panel.points} == {panel.mechanism}


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
    panels = {panel.mechanism: panel for panel in verdict_panels(examples.verdict())}
    noise = panels["randomization"]
    kinds = [mark.kind for mark in noise.marks]
    assert kinds == ["surrogate", "surrogate", "verdict"]
    assert all(mark.x < 0 for mark in noise.marks[:2]), "γ* is far weaker than all measured"
    assert noise.marks[2].x == pytest.approx((math.log10(0.000127020816) + 6) / 4)
    assert [x for x, _ in noise.predicted] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert [mark.kind for mark in panels["bounded-masks"].marks] == ["surrogate"]
    assert [mark.kind for mark in panels["compression"].marks] == ["surrogate", "tested"]


def test_a_certificate_stands_on_the_curve_of_its_noise() -> None:
    base = examples.verdict()
    certificate = Certificate(
        protection="randomization:variance=0.01,clip=0.5",
        release="local",
        kappa=Interval(0.0, 0.01),
        kappa_confidence=0.95,
        clip=0.5,
        clip_rule="median",
        noise=0.1,
        rounds=1,
        success=0.1,
        leakage=0.3,
        privacy=dp_figure(Randomization(0.01, 0.5), delta=1e-5),
    )
    made = Candidate("certified", "certified", True, True, "", certificate=certificate)
    verdict = replace(base, candidates=(*base.candidates, made))
    found = [
        (panel.mechanism, mark.x)
        for panel in verdict_panels(verdict)
        for mark in panel.marks
        if mark.kind == "certificate"
    ]
    assert [name for name, _ in found] == ["randomization"]
    assert found[0][1] == pytest.approx(1.0)
