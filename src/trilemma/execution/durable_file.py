"""What a process must not forget, in a file: whole or as it was, checked, its owner's alone."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from trilemma.errors import InvalidInput

__all__ = ["KeptFile", "replace_file"]

T = TypeVar("T")

_END: Final = "\n}\n"  # of a document, and nowhere inside one
_LONGEST: Final = 1 << 16  # bytes, from which on a file is written anew


@dataclass(frozen=True)
class KeptFile:
    """A JSON document of one `kind`, called `name` where it is refused; `mend` is the way out.

    It is written as a whole before anything leaves the node, can be read by its owner alone, and
    carries a checksum: a damaged one is refused, since an empty one would forget. Processes that
    share it take turns. Of several documents in the file the last whole one counts.
    """

    path: Path
    kind: str
    name: str
    mend: str

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time, by a lock in a file beside it: the file itself is replaced."""
        try:
            lock = os.open(self._beside("lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise InvalidInput(
                f"the {self.name} {self.path} cannot be read or written ({error.strerror}); "
                "nothing leaves this node until it can."
            ) from None

    def read(self, make: Callable[[Any], T], empty: T) -> T:
        """What `make` makes of the document; `empty` where there is no file yet."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return empty
        except UnicodeDecodeError:
            raise self._damaged() from None
        if os.name == "posix" and self.path.stat().st_mode & 0o077:
            raise InvalidInput(
                f"the {self.name} {self.path} is open to other users; run chmod 600 on it."
            )
        try:
            whole = text.rpartition(_END)[0]
            document = json.loads(whole.rpartition(_END)[2] + _END)
            if document["kind"] != self.kind or document["checksum"] != _sum(document["data"]):
                raise self._damaged()
            return make(document["data"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._damaged() from None

    def write(self, data: Any) -> None:
        """The whole file anew; durable when this returns."""
        replace_file(self.path, self._document(data))

    def add(self, data: Any) -> None:
        """The same in a third of the time: behind what is there, which has to be whole.

        What a crash leaves of a document's beginning counts as never written.
        """
        try:
            with self.path.open("rb+") as file:
                old = file.read()
                if old.endswith(_END.encode()) and len(old) < _LONGEST:
                    file.write(self._document(data))
                    file.flush()
                    os.fsync(file.fileno())
                    return
        except FileNotFoundError:
            pass
        self.write(data)

    def _document(self, data: Any) -> bytes:
        document = {"kind": self.kind, "data": data, "checksum": _sum(data)}
        return (json.dumps(document, indent=1) + "\n").encode()

    def _damaged(self) -> InvalidInput:
        return InvalidInput(
            f"the {self.name} {self.path} is damaged, and nothing leaves this node without it; "
            f"{self.mend}."
        )

    def _beside(self, what: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{what}")


def replace_file(path: Path, data: bytes) -> None:
    """The whole file anew, under another name first; its owner's, and durable on return."""
    new = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sum(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
