"""The SQLite file of a run: the settings that its chunks were made with, and the chunks.

Every row carries a digest of its content, so that a damaged one is told, not computed with.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from trilemma.errors import InvalidInput

__all__ = ["Settings", "Store"]

Settings = Mapping[tuple[str, str], str]
"""JSON texts by (whose, name)."""

_VERSION: Final = 3
_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE settings (
    whose TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (whose, name));
CREATE TABLE chunks (
    key TEXT NOT NULL, payload BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (key));
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_SETTINGS: Final = "SELECT whose, name, value, digest FROM settings"
_ROWS: Final = "SELECT key, payload, digest FROM chunks"
_REMEDY: Final = "bring back a copy of it, choose another folder, or start over with --fresh"


class Store:
    """Committed means durable; whatever in the file is not whole is one sentence.

    What the disk refuses is an `sqlite3.OperationalError`: the caller knows the folder's story.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """The store in a file, made where there is none."""
        with suppress(OSError):  # which SQLite then words, or another owner's file
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            path.chmod(0o600)  # its payloads are of records; SQLite gives its log the same mode
        store = cls(path, sqlite3.connect(path))
        try:
            with store._told("it is not a journal of trilemma", disk=True):
                # FULL: a commit survives a power cut too; it costs 0.4 ms, and chunks take longer.
                store._connection.execute("PRAGMA journal_mode = WAL")
                store._connection.execute("PRAGMA synchronous = FULL")
                if store.is_empty():
                    store._connection.executescript(_SCHEMA)
            store._check_version()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def look(cls, path: Path) -> Self:
        """The store in a file, to be read only; nothing is left beside it."""
        # Where no log waits beside it nobody writes, and SQLite need not make one to read it.
        still = not path.with_name(f"{path.name}-wal").exists()
        how = "mode=ro&immutable=1" if still else "mode=ro"
        try:
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)
        except sqlite3.Error as error:
            raise InvalidInput(
                f"{path} cannot be read ({error}); check its permissions."
            ) from None
        store = cls(path, connection)
        try:
            store._check_version()
        except BaseException:
            store.close()
            raise
        return store

    @staticmethod
    def remove(path: Path) -> None:
        """Delete the file and what SQLite keeps beside it."""
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(f"{path.name}{suffix}").unlink()

    def close(self) -> None:
        """Everything committed is already on disk."""
        self._connection.close()

    def is_empty(self) -> bool:
        """Whether it has no tables yet: its process was killed before it made them."""
        (tables,) = self._connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        return not tables

    def count(self) -> int:
        """How many chunks are finished."""
        with self._told("its tables are damaged"):
            return int(self._connection.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])

    def settings(self) -> dict[tuple[str, str], str]:
        """What the chunks were made with."""
        damage = "its settings are damaged"
        with self._told(damage):
            rows = self._connection.execute(_SETTINGS).fetchall()
        for whose, name, value, digest in rows:
            if not isinstance(value, str) or digest != _digest(whose, name, value.encode()):
                raise self._damaged(damage)
        return {(whose, name): value for whose, name, value, _ in rows}

    def payloads(self) -> dict[str, bytes]:
        """All payloads, by the key of their chunk."""
        with self._told("its chunks are damaged"):
            return dict(self._whole(self._connection.execute(_ROWS)))

    def check(self) -> None:
        """Read every row."""
        self.settings()
        self.payloads()

    def write(self, key: str, payload: bytes) -> None:
        """Add a chunk; a chunk is never written twice."""
        with self._told("it cannot be added to", disk=True), self._connection:
            self._insert(key, payload)

    def begin(self, settings: Settings, key: str, payload: bytes) -> None:
        """Empty the store, then keep the settings and the first chunk made with them, at once."""
        with self._told("it cannot be emptied", disk=True), self._connection:
            self._connection.execute("DELETE FROM chunks")
            self._connection.execute("DELETE FROM settings")
            self._connection.executemany(
                "INSERT INTO settings VALUES (?, ?, ?, ?)",
                [(*key, value, _digest(*key, value.encode())) for key, value in settings.items()],
            )
            self._insert(key, payload)

    def _insert(self, key: str, payload: bytes) -> None:
        row = (key, payload, _digest("chunk", key, payload))
        self._connection.execute("INSERT INTO chunks VALUES (?, ?, ?)", row)

    def _check_version(self) -> None:
        with self._told("it is not a journal of trilemma"):
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            empty = self.is_empty()
        if version != _VERSION and not empty:
            raise InvalidInput(
                f"{self._path} is a journal of version {version}, and this trilemma writes "
                f"version {_VERSION}; choose another folder, or start over with --fresh."
            )

    def _whole(self, rows: Iterable[tuple[object, object, object]]) -> Iterator[tuple[str, bytes]]:
        for key, payload, digest in rows:
            if not (
                isinstance(key, str)
                and isinstance(payload, bytes)
                and digest == _digest("chunk", key, payload)
            ):
                raise self._damaged(f"chunk {key!r:.80} is damaged")
            yield key, payload

    @contextmanager
    def _told(self, what: str, *, disk: bool = False) -> Iterator[None]:
        """What SQLite cannot use is damaged, unless it may be the `disk` that refuses."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # its words may quote the damage
            if disk and isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError):
                raise
            raise self._damaged(f"{what}: {error}") from error

    def _damaged(self, what: str) -> InvalidInput:
        return InvalidInput(f"{self._path} cannot be used ({what}); {_REMEDY}.")


def _digest(first: str, second: str, payload: bytes) -> bytes:
    """A digest of the payload under its name, so that rows cannot change places either."""
    name = hashlib.sha256(repr((first, second)).encode("utf-8", "surrogatepass")).digest()
    return hashlib.blake2b(payload, key=name, digest_size=16).digest()
