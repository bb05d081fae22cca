"""`report.html`: one file that explains a verdict or a front, and fetches nothing.

Text is escaped by the templates, data travel as one JSON text, and the page's own policy lets no
script or style run but the two written here.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trilemma.execution.run_files import write_text
from trilemma.paper_framework.paper_result import Paper
from trilemma.reporting.page.earlier_schemas import earlier_rows
from trilemma.reporting.page.sections import (
    front_context,
    front_data,
    verdict_context,
    verdict_data,
)
from trilemma.reporting.run_results import Earlier, Result, gallery_of
from trilemma.reporting.words import numbers
from trilemma.reporting.words import paper_tables as words
from trilemma.reporting.words.front_text import front_attacker
from trilemma.reporting.words.protection_text import family, phrase, short_spec, strength
from trilemma.tuning.results.verdict import Verdict

if TYPE_CHECKING:
    from trilemma.tuning.results.gallery import Gallery
    from trilemma.tuning.results.pareto_front import Front

__all__ = [
    "earlier_page", "front_page", "paper_page", "read_templates", "verdict_cell", "verdict_page",
    "write_report",
]  # fmt: skip

_SCRIPTS: Final = (
    "charts", "rule", "curves", "explorer", "front", "rounds", "trade_off",
)  # fmt: skip
_FILTERS: Final = (
    numbers.at_most, numbers.bits, numbers.bound, numbers.count, numbers.hundred,
    numbers.interval, numbers.listed, numbers.metric, numbers.number, numbers.percent,
    numbers.slower, numbers.times,
    family, front_attacker, phrase, short_spec, strength,
)  # fmt: skip


def write_report(result: Result, folder: Path) -> Path:
    """Write `report.html` into the folder of a run, and say where; its gallery is taken along."""
    if isinstance(result, Verdict):
        page = verdict_page(result, gallery_of(result, folder))
    elif isinstance(result, Earlier):
        page = earlier_page(result)
    elif isinstance(result, Paper):
        page = paper_page(result)
    else:
        page = front_page(result)
    target = folder / "report.html"
    write_text(target, page)
    return target


def read_templates() -> None:
    """Have all templates read and compiled, which takes longer than filling them in."""
    for name in _templates().list_templates(extensions=["html"]):
        _templates().get_template(name)


def verdict_page(verdict: Verdict, gallery: Gallery | None = None) -> str:
    """The page of a verdict; the gallery is left out unless the verdict allows it."""
    context = verdict_context(verdict, gallery)
    return _render("verdict.html", verdict_data(verdict), **context)


def verdict_cell(verdict: Verdict) -> str:
    """The first screen of a verdict, for the cell of a notebook."""
    context = verdict_context(verdict, None)
    return _templates().get_template("cell.html").render(**context)


def front_page(front: Front) -> str:
    """The page of a front."""
    return _render("front.html", front_data(front), **front_context(front))


def paper_page(paper: Paper) -> str:
    """The page of the paper's algorithm, with its figure."""
    from trilemma.reporting.figures.paper_figure import (
        draw_trade_off,  # matplotlib takes long to import
    )
    from trilemma.reporting.figures.style import plain_style

    drawn = io.BytesIO()
    with plain_style():
        draw_trade_off(paper).savefig(drawn, format="svg", metadata={"Date": None})
    return _render(
        "paper.html",
        None,
        paper=paper,
        figure=base64.b64encode(drawn.getvalue()).decode(),
        sheets=list(words.sheets(paper)),
        columns=words.CONSTANTS,
        sentences=list(words.worth(paper)),
        facts=list(words.facts(paper)),
        constants=list(words.constant_rows(paper.estimated)),
        remarks=list(words.remarks(paper.estimated)),
    )


def earlier_page(earlier: Earlier) -> str:
    """A plain page of a verdict of an earlier schema, with the reason not to deploy it."""
    return _render("earlier.html", None, earlier=earlier, rows=earlier_rows(earlier))


def _render(template: str, data: dict[str, Any] | None, **context: Any) -> str:
    """The page; without data it has no script."""
    style, script = _asset("style.css"), ""
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}"
    if data is not None:
        script = "\n".join(_asset(f"scripts/{name}.js") for name in _SCRIPTS)
        policy = f"{policy}; script-src {_hash(script)}"
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
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
        loader=PackageLoader("trilemma.reporting.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for item in _FILTERS:
        made.filters[item.__name__] = item
    return made


@cache
def _asset(name: str) -> str:
    return (resources.files("trilemma.reporting.page") / "templates" / name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
