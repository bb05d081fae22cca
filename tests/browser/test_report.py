"""The report in a real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.watching import Watched
from tests.reporting import examples
from tests.reporting.page.test_page import HOSTILE

from trilemma.reporting.page.page import write_report
from trilemma.reporting.words.answer import answer
from trilemma.reporting.words.numbers import number

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

NAMES = ("budget", "utility_weight", "efficiency_weight")
VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("which", ["report", "front", "rounds"])
def test_it_loads_quietly_and_fits(
    which: str, width: int, scheme: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    watched = Watched(browser, request.getfixturevalue(which), width=width, scheme=scheme)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "it scrolls sideways"
    assert page.locator(".chart .line").count() >= 12
    page.locator(".plot .chart").first.hover()
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    wide = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert page.evaluate(f"{wide}.map((each) => each.ariaLabel)") == [], "a table scrolls sideways"
    watched.close()


@pytest.mark.parametrize("which", ["report", "rounds"])
def test_the_answer_and_what_is_not_covered_fit_the_first_screen(
    which: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    watched = Watched(browser, request.getfixturevalue(which))
    box = watched.page.locator(".limits").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900
    watched.close()


def test_the_keyboard_is_enough(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    page = watched.page
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.className.baseVal")
        )
        if reached[-1] == "chart":
            break
    assert reached[-1] == "chart"
    weakest, *_, strongest = (
        curve for curve in examples.curves() if curve.family == "randomization"
    )
    first, last = (f"noise variance {number(value.strength)}" for value in (weakest, strongest))
    assert first in watched.text("#tip"), "the curve of noise comes first"
    page.keyboard.press("End")
    assert last in watched.text("#tip")
    assert last in (page.locator("#said").text_content() or "")
    page.keyboard.press("Home")
    assert last not in watched.text("#tip")
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    page.locator("#budget").focus()
    reached = []
    for _ in NAMES:
        reached.append(page.evaluate("document.activeElement.id"))
        page.keyboard.press("Tab")
    assert reached == list(NAMES)
    page.locator("#utility_weight").focus()
    before = watched.shown()
    page.keyboard.press("Home")
    assert watched.shown() != before
    assert watched.text("#exchange") == "A loss of accuracy does not count."
    watched.close()


def test_numbers_are_written_alike(browser: Browser, report: Path) -> None:
    draw = random.Random(8)
    values = [draw.uniform(-1, 1) * 10 ** draw.randint(-20, 15) for _ in range(400)]
    values += [0.0, 1.0, 0.5625, 0.0625, 999.5, 99950.0, 999500.0, 0.00009995, 1e-5, 123456.0]
    watched = Watched(browser, report)
    shown = watched.page.evaluate("values => values.map(number)", values)
    assert shown == [number(value) for value in values]
    watched.close()


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("which", ["report", "front", "rounds"])
def test_axe_finds_no_serious_violation(
    which: str, width: int, scheme: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs `dev`")
    watched = Watched(browser, request.getfixturevalue(which), width=width, scheme=scheme)
    watched.page.evaluate(
        "document.querySelectorAll('details').forEach((each) => each.open = true)"
    )
    found = axe.Axe().run(watched.page).response["violations"]
    grave = [
        (item["id"], [node["target"] for node in item["nodes"]][:3])
        for item in found
        if item["impact"] in ("serious", "critical")
    ]
    assert grave == []
    watched.close()


def test_hostile_text_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    base = examples.verdict()
    hostile = replace(
        base,
        headline=HOSTILE,
        limits=(HOSTILE,),
        statement=HOSTILE,
        reproduce=HOSTILE,
        federation=replace(base.federation, scenario=HOSTILE),
        curves=tuple(replace(curve, note=HOSTILE, symbol=HOSTILE) for curve in base.curves),
    )
    watched = Watched(browser, write_report(hostile, tmp_path))
    assert HOSTILE in (watched.page.locator(".limits li").first.text_content() or "")
    watched.set(budget=3)
    for chart in watched.page.locator(".panel .chart").all()[:4]:
        chart.hover()
        assert "<script>" in watched.text("#tip")
    watched.page.set_viewport_size({"width": 390, "height": 844})
    watched.close()


def test_records_are_hidden_unless_the_scenario_shows_them(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    shown = Watched(browser, report)
    assert shown.page.locator("img").count() == 2 * 8 * (1 + 1 + 5 * 2)
    assert shown.page.evaluate(
        "[...document.images].every((image) => image.complete && image.naturalWidth === 8)"
    )
    shown.close()
    examples.gallery().save(tmp_path / "gallery.json")
    hidden = Watched(browser, write_report(examples.verdict(show_records=False), tmp_path))
    assert hidden.page.locator("img").count() == 0
    hidden.close()


def test_it_prints_within_a_sheet(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report, scheme="dark")
    pdf = watched.page.pdf(format="A4")
    assert 4 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 14
    watched.page.set_viewport_size({"width": 718, "height": 1000})  # A4 without its margins
    watched.page.emulate_media(media="print")
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 718
    assert watched.page.locator("#sliders").is_hidden()
    assert (
        watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    watched.close()


def test_without_javascript_the_answer_and_the_tables_stand(
    browser: Browser, report: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert " ".join(page.inner_text("h1").split()) == answer(examples.verdict()).headline
    assert page.locator("#candidates tbody tr").count() == 6
    assert "need JavaScript" in page.inner_text("#explorer")
    context.close()


def test_the_data_in_the_page_are_the_file(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    held = watched.page.evaluate("JSON.stringify(data.document)")
    assert json.loads(held) == json.loads((report.parent / "verdict.json").read_text())
    watched.close()
