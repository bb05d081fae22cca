"""Results as JSON files: complete or not there, versioned, and checked when they are read.

A file may have been edited: what is read holds texts that can be shown, counts that are none
negative, shares in 0 .. 1, and intervals around their values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError

from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import Estimate
from trilemma.work.files import parse_json, write_json

__all__ = ["Document", "Kept", "Share", "Shares"]

Kind = TypeVar("Kind")
_SLACK: Final = 1e-9  # of rounding
_OF_ALL: Final = (
    ("recovered", "units"),
    ("successes", "units"),
    ("control_recovered", "control_units"),
)


def _share(value: float) -> float:
    if not -_SLACK <= value <= 1 + _SLACK:
        raise ValueError("a share lies in 0 .. 1")
    return value


def _shares(estimate: Estimate) -> Estimate:
    _share(estimate.low), _share(estimate.high)
    return estimate


Share = Annotated[float, AfterValidator(_share)]
Shares = Annotated[Estimate, AfterValidator(_shares)]


@dataclass(frozen=True)
class Document(Generic[Kind]):
    """How values of a class are kept in a file whose entry `key` holds the `version`.

    `remedy` says what to do about a file that is no such document, `upgrade` about one of an
    earlier version.
    """

    kind: type[Kind]
    name: str
    version: int
    remedy: str
    upgrade: str = ""
    key: str = "schema_version"

    @cached_property
    def _adapter(self) -> TypeAdapter[Kind]:
        return TypeAdapter(self.kind)

    def plain(self, value: Kind) -> dict[str, Any]:
        """The value as plain values, the version first."""
        document: dict[str, Any] = self._adapter.dump_python(value, mode="json")
        return {self.key: document.pop(self.key), **document}

    def write(self, value: Kind, path: Path | str) -> None:
        """The file is complete, or not there."""
        write_json(path, self.plain(value))

    def read(self, path: Path | str) -> Kind:
        """The value in a file; one sentence where there is none."""
        try:
            text = Path(path).read_bytes()
            document = parse_json(text)
        except OSError as error:
            raise InvalidInput(
                f"cannot read the {self.name} {path} ({error.strerror}); {self.remedy}."
            ) from None
        except ValueError as error:
            reason = str(error).removesuffix(".")
            raise InvalidInput(
                f"{path} is not a whole JSON file ({reason}); {self.remedy}."
            ) from None
        version = document.get(self.key) if isinstance(document, dict) else None
        if version != self.version:
            if self.upgrade and isinstance(version, int) and 0 < version < self.version:
                raise InvalidInput(
                    f"{path} is a {self.name} of version {version}, and this is trilemma's "
                    f"version {self.version}; {self.upgrade.format(folder=Path(path).parent)}."
                )
            raise InvalidInput(
                f"{path} is no {self.name} of version {self.version} ({self.key} is "
                f"{version!r:.40}); {self.remedy}."
            )
        try:
            value = self._adapter.validate_json(text, strict=True)  # a "1e999" is no number
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(
                f"{path} is not a {self.name}: {place or 'its content'} is wrong "
                f"({first['msg'].lower()}); {self.remedy}."
            ) from None
        for where, fault in _faults(value, ()):
            raise InvalidInput(
                f"{path} is not a {self.name}: {'.'.join(where)} {fault}; {self.remedy}."
            )
        return value

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the file."""
        schema = self._adapter.json_schema(mode="serialization")
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


class Kept:
    """A result that is kept in a file, as its `document` says."""

    document: ClassVar[Document[Any]]

    def as_json(self) -> dict[str, Any]:
        """The result as plain values, the version first."""
        return self.document.plain(self)

    def save(self, path: Path | str) -> None:
        """Write the result; the file is complete, or not there."""
        self.document.write(self, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The result in a file."""
        found: Self = cls.document.read(path)
        return found


def _faults(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where a value contradicts itself, and how."""
    if isinstance(value, str) and not value.isprintable():
        yield place, "cannot be printed"
    elif isinstance(value, int) and value < 0:
        yield place, f"is {value}, and counts something"
    elif isinstance(value, Estimate):
        slack = _SLACK * (1 + abs(value.value))
        if not value.low - slack <= value.value <= value.high + slack:
            yield place, f"is {value.value} outside of its interval {value.low} .. {value.high}"
    for won, games in _OF_ALL:
        if getattr(value, won, -math.inf) > getattr(value, games, math.inf):
            yield place, f"has {getattr(value, won)} successes in {getattr(value, games)} games"
    for name, each in _parts(value):
        yield from _faults(each, (*place, name))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        yield from value
    elif is_dataclass(value):
        yield from ((each.name, getattr(value, each.name)) for each in fields(value))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from (("a key", key), (str(key), each))
    elif isinstance(value, tuple):
        yield from ((str(number), each) for number, each in enumerate(value))
