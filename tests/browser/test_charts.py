"""The plots in a real browser show the verdict's values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.watching import Watched
from tests.reporting import examples

from trilemma.reporting.words.numbers import number

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


def test_hovering_shows_the_verdicts_values(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    chart = watched.page.locator('[data-panel="2"][data-kind="leakage"] .chart')
    points = [curve for curve in examples.verdict().curves if curve.family == "compression"]
    chart.scroll_into_view_if_needed()
    dots = chart.locator(".point")
    assert dots.count() == len(points)
    for place in (4, 11, 17):
        dots.nth(place).hover(force=True)
        leakage = points[place].leakage
        assert leakage is not None
        told = watched.text("#tip")
        assert f"share kept {number(points[place].strength)}" in told
        assert f"leakage {number(leakage.value)} [{number(leakage.low)}" in told
        assert f"right in {points[place].recovered} of {points[place].units} games" in told
    watched.close()


def test_leakage_against_rounds_is_drawn_where_it_is(browser: Browser, rounds: Path) -> None:
    watched = Watched(browser, rounds)
    chart = watched.page.locator("#rounds-plot .chart")
    chart.scroll_into_view_if_needed()
    assert chart.locator(".point").count() == 3 * 4
    assert chart.locator(".band").count() == 2
    assert chart.locator(".line.proved").count() == 1
    chart.locator(".point").last.hover(force=True)
    proved = examples.leaks(48, 200)
    assert watched.text("#tip").split("\n\n") == [
        "proved for anyone, participation secret",
        f"150 rounds: at most {number(proved.high)}",
    ]
    heights = chart.locator(".point").evaluate_all(
        "points => points.map((point) => point.getBoundingClientRect().top)"
    )
    assert heights[8:] == sorted(heights[8:], reverse=True), "it rises with the rounds"
    watched.close()
