"""A verdict of an earlier schema: its values in a plain table, and why it must not be deployed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from trilemma.errors import printable
from trilemma.reporting.words.numbers import number

if TYPE_CHECKING:
    from trilemma.reporting.run_results import Earlier

__all__ = ["earlier_rows"]

# Long lists, and what says nothing of the claim.
_LEFT_OUT: Final = (
    "curves", "predictions", "promises", "points", "by_attack", "bounds", "versions", "name",
    "client_utility_loss", "unprotected", "protected", "schema_version",
)  # fmt: skip
_DEEPEST: Final = 20  # levels that are shown, thrice what any schema had


def earlier_rows(earlier: Earlier) -> tuple[tuple[str, str], ...]:
    """(where, value) of the file in its order, without what says nothing of the claim."""
    rows = _rows(earlier.document, "", _DEEPEST)
    return tuple((printable(place), value) for place, value in rows)


def _rows(value: Any, place: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value.keys() == {"value", "low", "high"}:
        value = f"{_text(value['value'])} [{_text(value['low'])}, {_text(value['high'])}]"
    if depth == 0:
        yield place, "..."
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in _LEFT_OUT:
                yield from _rows(item, f"{place} {name}".strip(), depth - 1)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for n, item in enumerate(value):
            name = item.get("name", n + 1) if isinstance(item, dict) else n + 1
            yield from _rows(item, f"{place} {name}", depth - 1)
    elif isinstance(value, list):
        yield place, " ".join(map(_text, value))
    elif value not in (None, ""):
        yield place, _text(value)


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else printable(value)
