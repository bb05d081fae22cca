"""The report in a real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.reporting import examples
from tests.reporting.test_page import HOSTILE

from trilemma.reporting.explorer import Explorer, Preference
from trilemma.reporting.page import write_report
from trilemma.reporting.wording import number
from trilemma.tuning.problem import Problem
from trilemma.work.files import write_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium")
NAMES = ("budget", "utility_weight", "efficiency_weight")
VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra `dev`")
    with sync_api.sync_playwright() as playwright:
        # As root, which CI is, chromium has no sandbox.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    examples.verdict().save(folder / "verdict.json")
    write_json(folder / "gallery.json", examples.gallery())
    return write_report(folder)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("front")
    examples.front().save(folder / "pareto.json")
    return write_report(folder)


class Watched:
    """A page, and what it did that it should not: errors, warnings, requests, dialogs."""

    def __init__(
        self,
        browser: Browser,
        path: Path,
        *,
        width: int = 1280,
        scheme: Any = "light",
        at: str = "",
    ) -> None:
        self.misdeeds: list[str] = []
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": 844}, color_scheme=scheme
        )
        self.page.on("console", lambda message: self.misdeeds.append(message.text))
        self.page.on("pageerror", lambda error: self.misdeeds.append(str(error)))
        self.page.on("dialog", lambda dialog: self.misdeeds.append(dialog.message))
        self.url = path.as_uri()
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.goto(self.url + at)

    def _requested(self, url: str) -> None:
        if url.split("#")[0] != self.url:
            self.misdeeds.append(f"request {url}")

    def set(self, **stops: int) -> None:
        for name, stop in stops.items():
            self.page.locator(f"#{name}").evaluate(
                "(slider, stop) => { slider.value = stop;"
                " slider.dispatchEvent(new Event('input', { bubbles: true })); }",
                stop,
            )

    def shown(self) -> dict[str, str]:
        found: dict[str, str] = self.page.locator("#recommendation").evaluate(
            "box => ({ ...box.dataset })"
        )
        return found

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def close(self) -> None:
        self.page.close()
        assert self.misdeeds == []


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("which", ["report", "front"])
def test_it_loads_quietly_and_fits(
    which: str, width: int, scheme: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    watched = Watched(browser, request.getfixturevalue(which), width=width, scheme=scheme)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "it scrolls sideways"
    assert page.locator(".chart .line").count() >= 12
    page.locator(".plot .chart").first.hover()
    watched.close()


def preferences(explorer: Explorer) -> list[tuple[Preference, dict[str, int]]]:
    """The verdict's own setting, and 29 others at random stops."""
    draw = random.Random(3)
    stops = explorer.stops
    chosen = [
        {name: draw.randrange(len(found)) for name, found in stops.items()} for _ in range(29)
    ]
    own = {name: found.index(getattr(explorer.start, name)) for name, found in stops.items()}
    return [
        (Preference(*(stops[name][places[name]] for name in NAMES)), places)
        for places in (own, *chosen)
    ]


def agree(watched: Watched, explorer: Explorer) -> set[int]:
    """Move the sliders through all settings; the places that won."""
    best = set()
    for want, stops in preferences(explorer):
        watched.set(**stops)
        expected, shown = explorer.recommend(want), watched.shown()
        assert shown["own"] == str(expected.own).lower()
        assert shown["places"].split() == [str(each.place) for each in expected.options]
        assert shown["tied"].split() == [str(each.place) for each in expected.options if each.tied]
        objectives = [float(each) for each in shown["objectives"].split()]
        assert objectives == [each.objective.value for each in expected.options], "bit by bit"
        best |= {each.place for each in expected.options[:1]}
        for name in NAMES:
            assert watched.text(f"#{name}-value") == number(getattr(want, name))
        rows = watched.page.locator("#options tbody tr th").all_inner_texts()
        assert rows == [explorer.points[each.place].mechanism for each in expected.options]
    return best


def test_the_sliders_say_what_python_says(browser: Browser, report: Path) -> None:
    verdict = examples.verdict()
    own = Preference.of(verdict.problem)
    watched = Watched(browser, report)
    assert len(agree(watched, Explorer(verdict.curves, own, own))) >= 3
    watched.close()


def test_they_agree_under_caps_and_odd_budgets_too(browser: Browser, tmp_path: Path) -> None:
    problem = Problem(0.2345, (0.5, 1.5), 0.02, max_utility_loss=0.05, max_cost=2.0)
    verdict = replace(
        examples.verdict(), problem=problem, curves=examples.curves(units=300, seed=4)
    )
    verdict.save(tmp_path / "verdict.json")
    own = Preference.of(problem)
    watched = Watched(browser, write_report(tmp_path))
    assert len(agree(watched, Explorer(verdict.curves, own, own, 0.05, 2.0))) >= 3
    watched.close()


def test_they_agree_on_a_front(browser: Browser, front: Path) -> None:
    watched = Watched(browser, front)
    found = agree(watched, Explorer(examples.front().points, Preference.of(Problem())))
    assert len(found) >= 3
    watched.close()


def test_the_verdict_is_certified_at_its_own_setting_only(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    assert watched.text("#status") == "The verdict: tested with fresh attacks"
    assert watched.text("#pick") == "Use noise of variance 0.000127."
    watched.page.locator("#budget").press("ArrowRight")
    assert watched.text("#status") == "An estimate, no verdict"
    assert "An estimate from 48 units a point" in watched.text("#how")
    assert "trilemma tune --budget 0.32 --utility-weight 1 " in watched.text("#how")
    watched.page.locator("#reset").click()
    assert watched.text("#status").startswith("The verdict")
    watched.set(budget=0)
    assert watched.shown()["places"].split(), "what rests on a key keeps every budget"
    watched.close()


def test_the_state_is_in_the_address(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    assert "#" not in watched.page.url, "an untouched page has a clean address"
    watched.set(budget=4, utility_weight=2, efficiency_weight=9)
    url, shown = watched.page.url, watched.shown()
    watched.close()
    again = Watched(browser, report, at="#" + url.split("#")[1])
    assert again.shown() == shown
    assert again.text("#budget-value") == "0.1"
    again.close()
    for nonsense in ("#budget=NaN&utility_weight=", "#budget=1e999", "#%E0%A4%A", "#front"):
        watched = Watched(browser, report, at=nonsense)
        assert watched.shown()["own"] == "true"
        watched.close()
    snapped = Watched(browser, report, at="#budget=0.105")
    assert snapped.text("#budget-value") in ("0.1", "0.12")
    snapped.close()


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
    assert [each for each in reached if each in NAMES] == list(NAMES)
    assert reached[-1] == "chart"
    first = watched.text("#tip")
    assert "noise variance" in first or "γ*" in first
    page.keyboard.press("End")
    assert "noise variance 0.01" in watched.text("#tip")
    assert "noise variance 0.01" in (page.locator("#said").text_content() or "")
    page.keyboard.press("ArrowLeft")
    assert "noise variance 0.01" not in watched.text("#tip")
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    page.locator("#utility_weight").focus()
    before = watched.shown()
    page.keyboard.press("Home")
    assert watched.shown() != before
    assert watched.text("#exchange") == "Utility does not count."
    watched.close()


def test_hovering_shows_the_verdicts_values(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    chart = watched.page.locator('[data-panel="1"][data-kind="leakage"] .chart')
    points = [each for each in examples.verdict().curves if each.mechanism == "compression"]
    chart.scroll_into_view_if_needed()
    dots = chart.locator(".point")
    assert dots.count() == len(points)
    for place in (4, 11, 17):
        dots.nth(place).hover(force=True)
        leakage = points[place].leakage
        assert leakage is not None
        told = watched.text("#tip")
        assert f"share kept {number(points[place].parameter)}" in told
        assert f"leakage {number(leakage.value)} [{number(leakage.low)}" in told
        assert f"{points[place].recovered} of {points[place].units} recovered (dlg" in told
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
@pytest.mark.parametrize("which", ["report", "front"])
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
        (each["id"], [node["target"] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert grave == []
    watched.close()


def test_hostile_text_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    base = examples.verdict()
    replace(
        base,
        limits=(HOSTILE,),
        statement=HOSTILE,
        reproduce=HOSTILE,
        federation=replace(base.federation, scenario=HOSTILE),
        curves=tuple(replace(each, note=HOSTILE, symbol=HOSTILE) for each in base.curves),
        promises=tuple(replace(each, symbol=HOSTILE, note=HOSTILE) for each in base.promises),
    ).save(tmp_path / "verdict.json")
    watched = Watched(browser, write_report(tmp_path))
    assert HOSTILE in (watched.page.locator(".limits li").first.text_content() or "")
    watched.set(budget=3)
    for chart in watched.page.locator(".chart").all()[:4]:
        chart.hover()
        assert "<script>" in watched.text("#tip")
    watched.page.set_viewport_size({"width": 390, "height": 844})
    watched.close()


def test_records_are_hidden_unless_the_scenario_shows_them(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    shown = Watched(browser, report)
    assert shown.page.locator("img").count() == 4 * 6
    assert shown.page.evaluate(
        "[...document.images].every((image) => image.complete && image.naturalWidth === 8)"
    )
    shown.close()
    replace(examples.verdict(), show_records=False).save(tmp_path / "verdict.json")
    write_json(tmp_path / "gallery.json", examples.gallery())
    hidden = Watched(browser, write_report(tmp_path))
    assert hidden.page.locator("img").count() == 0
    hidden.close()


def test_it_prints(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report, scheme="dark")
    pdf = watched.page.pdf(format="A4")
    assert 4 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 12
    watched.page.emulate_media(media="print")
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
    assert "Use noise of variance 0.000127." in page.inner_text("h1")
    assert page.locator("#candidates tbody tr").count() == 5
    assert "need JavaScript" in page.inner_text("#explorer")
    context.close()


def test_the_data_in_the_page_are_the_file(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    held = watched.page.evaluate("JSON.stringify(data.document)")
    assert json.loads(held) == json.loads((report.parent / "verdict.json").read_text())
    watched.close()
