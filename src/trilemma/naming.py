"""The one way to objects that a user names as module:object: scenarios, mechanisms, attacks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from trilemma.errors import InvalidInput, Untrusted, place_of

__all__ = ["load_object", "only_named"]

_ALLOWED: Final[ContextVar[tuple[str | None, ...] | None]] = ContextVar("allowed", default=None)


@contextmanager
def only_named(*names: str | None, trust: bool) -> Iterator[None]:
    """Inside, no module is imported but for these names, which a user gave, unless `trust`.

    For reading files that anyone may have written: importing a module runs its code.
    """
    token = _ALLOWED.set(None if trust else names)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def load_object(what: str, name: str) -> Any:
    """The object that `name` (module:object) stands for; importing the module runs its code.

    >>> load_object("function", "math:floor")(2.5)
    2
    """
    allowed = _ALLOWED.get()
    if allowed is not None and name not in allowed:
        raise Untrusted(
            f"{what} {name!r:.80} is named by the file, and importing it would run code; add "
            "--trust if you trust whoever wrote the file."
        )
    module_name, _, path = name.partition(":")
    if module_name.endswith(".py"):
        module = Path(module_name).stem
        raise InvalidInput(f"{what} {name!r} names a file; write its module, {module}:{path}.")
    here = str(Path.cwd())
    # A console script does not look in the current folder, where the user's module most often is.
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        place = place_of(error)
        raise InvalidInput(
            f"{what} {name!r}: the module {module_name!r} cannot be imported "
            f"({type(error).__name__}: {error}{f'; {place}' if place else ''})."
        ) from error
    finally:
        sys.path.remove(here)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError:
        names = [item for item in dir(found) if not item.startswith("_")]
        close = get_close_matches(path, names, n=1)
        where = getattr(found, "__file__", None)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        if not close and where:
            hint = f"; name a function or object of {where!r:.200}."
        raise InvalidInput(
            f"{what} {name!r}: {module_name} has no object {path!r}{hint}"
        ) from None
    return found
