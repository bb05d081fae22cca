"""Results as JSON files: complete or not there, versioned, and checked when they are read.

A file may have been edited: what is read holds texts that can be shown, counts that are none
negative, shares in 0 .. 1, and intervals around their values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from trilemma.errors import InvalidInput
from trilemma.execution.run_files import is_folder, parse_json, write_json
from trilemma.game.estimates import Estimate

__all__ = ["Kept", "Share", "Shares"]

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


class Kept:
    """A result that is kept in a file, whose entry `version_key` holds the version of its form.

    `file` is what it is called in a run folder. `remedy` says what to do about a file that is no
    such result, `upgrade` about one of an earlier version. A `private` file is its owner's alone.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="null")
    version_key: ClassVar[str] = "schema_version"
    file: ClassVar[str]
    remedy: ClassVar[str]
    upgrade: ClassVar[str] = ""
    private: ClassVar[bool] = False

    @classmethod
    @cache
    def _adapter(cls) -> TypeAdapter[Any]:
        return TypeAdapter(cls)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        schema = cls._adapter().json_schema(mode="serialization")
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}

    def as_json(self) -> dict[str, Any]:
        """The result as plain values, the version first."""
        document: dict[str, Any] = self._adapter().dump_python(self, mode="json")
        return {self.version_key: document.pop(self.version_key), **document}

    def save(self, path: Path | str) -> None:
        """Write the result; the file is complete, or not there."""
        write_json(path, self.as_json(), private=self.private)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The result in a file, or in a run folder; one sentence where there is none."""
        name, wanted = cls.__name__.lower(), getattr(cls, cls.version_key)
        if is_folder(Path(path)):
            path = Path(path) / cls.file
        try:
            text = Path(path).read_bytes()
            document = parse_json(text)
        except OSError as error:
            raise InvalidInput(
                f"cannot read the {name} {path} ({error.strerror}); {cls.remedy}."
            ) from None
        except ValueError as error:
            reason = str(error).removesuffix(".")
            raise InvalidInput(
                f"{path} is not a whole JSON file ({reason}); {cls.remedy}."
            ) from None
        version = document.get(cls.version_key) if isinstance(document, dict) else None
        if version != wanted:
            if cls.upgrade and isinstance(version, int) and 0 < version < wanted:
                raise InvalidInput(
                    f"{path} is a {name} of version {version}, and this is trilemma's version "
                    f"{wanted}; {cls.upgrade.format(folder=Path(path).parent)}."
                )
            raise InvalidInput(
                f"{path} is no {name} of version {wanted} ({cls.version_key} is "
                f"{version!r:.40}); {cls.remedy}."
            )
        try:
            # Strictly: a "1e999" is no number.
            value: Self = cls._adapter().validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(
                f"{path} is not a {name}: {place or 'its content'} is wrong "
                f"({first['msg'].lower()}); {cls.remedy}."
            ) from None
        for where, fault in _faults(value, ()):
            raise InvalidInput(f"{path} is not a {name}: {'.'.join(where)} {fault}; {cls.remedy}.")
        return value


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
    for name, item in _parts(value):
        yield from _faults(item, (*place, name))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        yield from value
    elif is_dataclass(value):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (("a key", key), (str(key), item))
    elif isinstance(value, tuple):
        yield from ((str(number), item) for number, item in enumerate(value))
