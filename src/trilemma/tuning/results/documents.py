"""Results as JSON files: complete or not there, versioned, and checked when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from trilemma.errors import InvalidInput
from trilemma.work.files import parse_json, write_json

__all__ = ["Document", "Kept"]

Kind = TypeVar("Kind")


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
            return self._adapter.validate_json(text, strict=True)  # a "1e999" is no number
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(
                f"{path} is not a {self.name}: {place or 'its content'} is wrong "
                f"({first['msg'].lower()}); {self.remedy}."
            ) from None

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
