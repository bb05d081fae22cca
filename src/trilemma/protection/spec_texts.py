"""A part of a protection as text: its name, and its settings behind a colon."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from trilemma.errors import InvalidInput

__all__ = ["described"]


def described(part: object, name: str | None = None) -> str:
    """The fields of a dataclass that differ from their defaults, behind a name: module:class."""
    if name is None:
        name = f"{type(part).__module__}:{type(part).__qualname__}"
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
