"""A part of a protection as text: its name, and its settings behind a colon."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from trilemma.errors import InvalidInput

__all__ = ["described"]


def described(part: object) -> str:
    """A part's name and the fields that differ from their defaults; yours goes as module:class."""
    kind = type(part)
    ours = kind.__module__.partition(".")[0] == "trilemma"
    name = str(getattr(part, "name", "")) if ours else f"{kind.__module__}:{kind.__qualname__}"
    if not is_dataclass(part):
        raise InvalidInput(
            f"{name} is no dataclass, so its settings cannot be written down; make it one, or "
            "give it a describe() of its own."
        )
    shown = [
        f"{field.name}={getattr(part, field.name)!r}"
        for field in fields(part)
        if field.init and getattr(part, field.name) != field.default
    ]
    return ":".join((name, ",".join(shown))) if shown else name
