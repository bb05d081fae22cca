"""The sliders in a real browser agree with every choice tried one by one, number for number."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.watching import Watched
from tests.reporting import examples
from tests.reporting.recommending import recommended, spoiled

from trilemma.reporting.page.explorer import Explorer, Preference
from trilemma.reporting.page.page import write_report
from trilemma.reporting.page.sections import front_explorer, verdict_explorer
from trilemma.reporting.words.numbers import hundred, number
from trilemma.reporting.words.protection_text import family
from trilemma.tuning.request import Request

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

NAMES = ("budget", "utility_weight", "efficiency_weight")


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
        expected, shown = recommended(explorer, want), watched.shown()
        assert shown["own"] == str(want == explorer.verdict).lower()
        assert shown["places"].split() == [str(item.place) for item in expected]
        assert shown["tied"].split() == [str(item.place) for item in expected if item.tied]
        objectives = [float(part) for part in shown["objectives"].split()]
        assert objectives == [item.objective.value for item in expected], "bit by bit"
        best |= {item.place for item in expected[:1]}
        for name in NAMES:
            assert watched.text(f"#{name}-value") == number(getattr(want, name))
        assert f"right guesses in {hundred(explorer.allowed(want.budget))} games" in watched.text(
            "#allowed"
        )
        rows = watched.page.locator("#options tbody tr th").all_inner_texts()
        names = [explorer.points[item.place].family for item in expected]
        assert rows == [family(name) for name in names]
    return best


def test_the_sliders_say_what_python_says(browser: Browser, report: Path) -> None:
    verdict = examples.verdict()
    watched = Watched(browser, report)
    assert len(agree(watched, verdict_explorer(verdict))) >= 3
    watched.close()


def test_they_agree_under_caps_and_odd_budgets_too(browser: Browser, tmp_path: Path) -> None:
    request = Request(
        budget=0.2345, utility_weight=(0.5, 1.5), efficiency_weight=0.02, max_utility_loss=0.05,
        max_cost=2.0,
    )  # fmt: skip
    claim = replace(examples.CLAIM, rounds=1, candidates=100)
    verdict = examples.verdict(
        request=request, claim=claim, curves=examples.curves(units=300, seed=4)
    )
    watched = Watched(browser, write_report(verdict, tmp_path))
    assert len(agree(watched, verdict_explorer(verdict))) >= 3
    watched.close()


def test_they_agree_where_curves_have_bumps_and_gaps(browser: Browser, tmp_path: Path) -> None:
    best = set()
    for seed in range(4):
        verdict = examples.verdict(curves=spoiled(seed))
        watched = Watched(browser, write_report(verdict, tmp_path))
        best |= {(seed, place) for place in agree(watched, verdict_explorer(verdict))}
        watched.close()
    assert len(best) >= 12


def test_they_agree_on_a_front(browser: Browser, front: Path) -> None:
    watched = Watched(browser, front)
    assert len(agree(watched, front_explorer(examples.front()))) >= 3
    watched.close()


def test_the_verdict_is_certified_at_its_own_setting_only(browser: Browser, report: Path) -> None:
    watched = Watched(browser, report)
    assert watched.text("#status") == "The verdict: tested, not proved"
    assert watched.text("#pick").startswith("Noise inside secret sharing.")
    watched.page.locator("#budget").press("ArrowRight")
    assert watched.text("#status") == "An estimate, no verdict"
    assert "An estimate from 48 games at this point" in watched.text("#how")
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
