"""Files of a run: complete or not there, and read with care, as anyone may have written them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from trilemma.errors import InvalidInput

__all__ = [
    "is_folder",
    "new_folder",
    "object_in",
    "objects_in",
    "parse_json",
    "read_object",
    "sqlite_url",
    "write_bytes",
    "write_json",
    "write_text",
]


def write_json(path: Path | str, document: Mapping[str, object], *, private: bool = False) -> None:
    """Write a result; the file is complete, or not there, and its owner's alone if `private`."""
    write_text(path, json.dumps(document, allow_nan=False, indent=2) + "\n", private=private)


def write_text(path: Path | str, text: str, *, private: bool = False) -> None:
    """Write a file that is complete, or not there, and its owner's alone if `private`."""
    write_bytes(path, text.encode(), private=private)


def write_bytes(path: Path | str, content: bytes, *, private: bool = False) -> None:
    """Write a file that is complete, or not there, and its owner's alone if `private`."""
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    try:
        if private:
            draft.unlink(missing_ok=True)
            draft.touch(0o600)
        draft.write_bytes(content)
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise InvalidInput(
            f"cannot write {target} ({error.strerror}); make room, or choose another folder."
        ) from error


def new_folder(path: Path | str) -> Path:
    """A folder to write to, made where there is none."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot write to {folder} ({error.strerror}); choose another --out."
        ) from None
    return folder


def is_folder(path: Path) -> bool:
    """Whether there is a folder; a path that the system refuses to look at is none."""
    try:
        return path.is_dir()
    except OSError:  # too long a name, say, or somebody else's parent
        return False


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text in which every number is finite.

    >>> parse_json('{"budget": 1e999}')
    Traceback (most recent call last):
    trilemma.errors.InvalidInput: a number is too large: 1e999.
    """
    try:
        return json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole_number
        )
    except RecursionError:
        raise InvalidInput("the JSON text is nested too deeply.") from None
    except InvalidInput:
        raise
    except ValueError as error:  # of bytes that are no text, too
        raise InvalidInput(f"it is not JSON ({error}).") from None


def read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        document = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"cannot read {path} ({error.strerror}); check its name.") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} holds no JSON object; check its name.")
    return document


def object_in(path: Path, within: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object of a file's, by name; an empty one where there is none."""
    found = within.get(name)
    if found is not None and not isinstance(found, dict):
        raise InvalidInput(f"{path}: {name} must be an object, got {found!r:.80}; mend it.")
    return found or {}


def objects_in(path: Path, within: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects of a file's, by name; an empty one where there is none."""
    found = within.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise InvalidInput(f"{path}: {name} must be a list of objects; mend it.")
    return found


def sqlite_url(path: Path) -> str:
    """The URL by which SQLAlchemy opens a SQLite file, whatever characters its path holds."""
    from sqlalchemy.engine import URL  # heavy: importing this file must stay cheap

    # A file: URI, as a plain path would end at its first question mark.
    url = URL.create("sqlite", database=path.resolve().as_uri(), query={"uri": "true"})
    return url.render_as_string()


def _refuse(word: str) -> NoReturn:
    raise InvalidInput(f"{word} is no number.")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise InvalidInput(f"a number is too large: {digits[:40]}.")
    return value


def _whole_number(digits: str) -> int:
    _finite(digits)  # what no float can hold would fail later, where numbers are compared
    return int(digits)
