"""`report.html`: one file that explains a verdict or a front, and fetches nothing.

Text is escaped by the templates, data travel as one JSON text, and the page's own policy lets no
script or style run but the two written here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trilemma.reporting.answer import answer, metric_name
from trilemma.reporting.explorer import BARRED, Explorer, Preference
from trilemma.reporting.panels import Panel, bare_panels, front_places, verdict_panels
from trilemma.reporting.pictures import picture
from trilemma.reporting.sources import read_run
from trilemma.reporting.wording import interval, number, one_in, percent, phrase, times
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.verdict import Verdict
from trilemma.work.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.tuning.fronts.pareto import Front
    from trilemma.tuning.results.gallery import Gallery

__all__ = ["front_page", "verdict_page", "write_report"]

_SCRIPTS: Final = ("charts.js", "rule.js", "curves.js", "explorer.js", "front.js")


def write_report(run: Path) -> Path:
    """Write `report.html` beside the result of a run, and say where."""
    found = read_run(run)
    if isinstance(found.result, Verdict):
        page = verdict_page(found.result, found.gallery)
    else:
        page = front_page(found.result)
    target = found.folder / "report.html"
    write_text(target, page)
    return target


def verdict_page(verdict: Verdict, gallery: Gallery | None = None) -> str:
    """The page of a verdict; the gallery is left out unless the verdict allows it."""
    own = Preference.of(verdict.problem)
    explorer = Explorer(
        verdict.curves,
        start=own,
        verdict=own,
        max_utility_loss=verdict.problem.max_utility_loss,
        max_cost=verdict.problem.max_cost,
    )
    first = answer(verdict)
    panels = verdict_panels(verdict)
    data = {
        "document": verdict.as_json(),
        **_curves(explorer, panels),
        "front": {
            "places": front_places(verdict.curves),
            "knee": None,
            "verdict": _place(verdict),
        },
        "own": {"headline": first.headline, "proof": first.proof},
    }
    return _render(
        "verdict.html",
        data,
        verdict=verdict,
        answer=first,
        explorer=explorer if verdict.curves else None,
        panels=panels,
        gallery=gallery if verdict.show_records else None,
    )


def front_page(front: Front) -> str:
    """The page of a front; no weights are known, so that the sliders start at the defaults."""
    explorer = Explorer(front.points, start=Preference.of(Problem()))
    panels = bare_panels(front.points)
    data = {
        "document": front.as_json(),
        **_curves(explorer, panels),
        "front": {"places": front.front, "knee": front.knee, "verdict": None},
        "own": None,
    }
    return _render("front.html", data, front=front, explorer=explorer, panels=panels)


def _curves(explorer: Explorer, panels: Sequence[Panel]) -> dict[str, Any]:
    return {
        "explorer": {
            "start": asdict(explorer.start),
            "verdict": None if explorer.verdict is None else asdict(explorer.verdict),
            "max_utility_loss": explorer.max_utility_loss,
            "max_cost": explorer.max_cost,
            "barred": sorted(BARRED),
            "stops": explorer.stops,
            "phrases": [phrase(each.protection) for each in explorer.points],
        },
        "panels": [{**asdict(panel), "ticks": panel.axis.ticks()} for panel in panels],
    }


def _place(verdict: Verdict) -> dict[str, float] | None:
    """Where the verdict lies beside the front; what only a key protects leaks 0."""
    chosen = verdict.choice
    if chosen is None or chosen.costs is None:
        return None
    leakage = 0.0 if chosen.leakage is None else chosen.leakage.value
    return {"leakage": leakage, "loss": chosen.costs.utility_loss.value}


def _render(template: str, data: dict[str, Any], **context: Any) -> str:
    style, script = _asset("style.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    )
    return (
        _templates()
        .get_template(template)
        .render(
            **context,
            policy=policy,
            style=Markup(style),
            script=Markup(script),
            # "<" starts a tag even in a script's text, where HTML's own escapes mean nothing.
            data=Markup(text.replace("<", "\\u003c")),
        )
    )


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("trilemma.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (interval, metric_name, number, one_in, percent, phrase, picture, times):
        made.filters[each.__name__] = each
    return made


@cache
def _asset(name: str) -> str:
    return (resources.files("trilemma.reporting") / "templates" / name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
