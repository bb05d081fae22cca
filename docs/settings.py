"""Writes docs/settings.md from the fields that flags, trilemma.toml and keywords are checked by."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from trilemma.api import audit, pareto, tune
from trilemma.settings import Audited, Federated, Searched
from trilemma.tuning.presets import Preset
from trilemma.tuning.request import Knows, Request

PAGE = Path(__file__).with_name("settings.md")
_INTRO = """# Settings

Made by `python docs/settings.py` from the code. A setting has one name everywhere: `at_most` is
`--at-most` on the command line, `at_most = "1 in 6"` in `trilemma.toml`, and `at_most="1 in 6"` in
Python. Flags win over the file. `--quick` and `--thorough` are `preset`, which changes the defaults of
some others.
"""


def table(title: str, model: type[BaseModel], function: Callable[..., Any]) -> str:
    """A heading, and a row for each field, with its type as the function's keyword has it."""
    keywords = inspect.signature(function).parameters
    rows = [
        f"| `{name}` | `{_type(keywords[name])}` | `{_value(field.default)}` | {field.description} |"
        for name, field in model.model_fields.items()
    ]
    head = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *head, *rows])


def _type(keyword: inspect.Parameter) -> str:
    """The type as people read it: choices are listed, a scenario is named by a text."""
    text = str(keyword.annotation)
    named: Any = {"Given": str, "Knows": Knows, "Preset": Preset}.get(text)
    if named is str:
        return "str"
    if named is not None:
        return " or ".join(map(repr, get_args(named)))
    choices = re.sub(r"Literal\[(.*?)\]", lambda found: found[1].replace(", ", " | "), text)
    return choices.replace(" | ", " or ")


def _value(default: Any) -> str:
    return f"{getattr(default, 'value', default)}"


def page() -> str:
    """The whole page."""
    parts = [
        table("Which federation", Federated, tune),
        table("What is asked: tune, check", Request, tune),
        table("Of an audit", Audited, audit),
        table("Of a front: pareto", Searched, pareto),
    ]
    return "\n\n".join([_INTRO.rstrip(), *parts]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
