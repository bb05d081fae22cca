"""A run on disk: a folder with a journal of finished chunks, from which the same command resumes.

Work is cut into fixed chunks; the same chunk gives the same payload whatever else runs, and each
one is committed as soon as it is finished. A process killed at any moment therefore loses at most
the chunks in flight, and a resumed run ends in the numbers of an undisturbed one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from trilemma.entropy import System
from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.work.log import RunLog

__all__ = [
    "DiskRefused",
    "Run",
    "RunInUse",
    "RunListed",
    "SettingsChanged",
    "list_runs",
    "write_json",
    "write_text",
]

_JOURNAL: Final = "journal.sqlite"
_LOCK: Final = "lock"
_REFUSALS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS settings (
    one INTEGER PRIMARY KEY CHECK (one = 1), fingerprint TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chunks (
    stage TEXT NOT NULL, chunk INTEGER NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (stage, chunk));
CREATE TABLE IF NOT EXISTS keys (name TEXT PRIMARY KEY, key BLOB NOT NULL);
"""


class RunInUse(TrilemmaError):
    """Another process works in the same folder."""


class DiskRefused(TrilemmaError):
    """The disk is full, read-only, or was taken away."""


class SettingsChanged(InvalidInput):
    """The folder holds chunks of a run with other settings, which must not be mixed."""


class Run:
    """A run folder, held by one process at a time.

    `settings` is what decides the numbers (never the number of workers): a folder made with other
    settings is refused, unless `fresh` empties it first.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with Run(folder, {"seed": 1}) as run:
    ...     run.commit("attack", 0, b"payload")
    >>> with Run(folder, {"seed": 1}) as run:
    ...     run.committed("attack")
    {0: b'payload'}
    """

    def __init__(
        self, folder: Path | str, settings: Mapping[str, object], *, fresh: bool = False
    ) -> None:
        self.folder: Final = Path(folder)
        self.log: Final = RunLog(self.folder)
        self._lock = _hold(self.folder)
        try:
            with self._written():
                if fresh:
                    _empty(self.folder)
                self._journal = _open(self.folder / _JOURNAL)
                try:
                    self._claim(settings)
                    self._greet(str(settings.get("command", "run")), fresh=fresh)
                except BaseException:
                    self._journal.close()
                    raise
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        refusal = None
        if isinstance(error, OSError) and error.errno in _REFUSALS:  # by a result's file, say
            refusal = self._refused(error)
        with suppress(OSError):  # a full disk must not hide the error that it caused
            self.log.write(_ending(refusal or error))
        self.close()
        if refusal is not None:
            raise refusal from error

    def close(self) -> None:
        """Give the folder back; everything committed is already on disk."""
        self._journal.close()
        self._lock.close()

    def commit(self, stage: str, chunk: int, payload: bytes) -> None:
        """Write one finished chunk, durable when this returns; a chunk is never written twice."""
        with self._written(), self._journal:
            self._journal.execute("INSERT INTO chunks VALUES (?, ?, ?)", (stage, chunk, payload))

    def committed(self, stage: str) -> dict[int, bytes]:
        """Payloads of the finished chunks of a stage, by chunk."""
        rows = self._journal.execute(
            "SELECT chunk, payload FROM chunks WHERE stage = ? ORDER BY chunk", (stage,)
        )
        return dict(rows.fetchall())

    def key(self, name: str) -> bytes:
        """A secret of 32 bytes that stays in this folder; the same one whenever it is asked for.

        For keyed hashes of data: they tell the same data again, and nothing to who has no key.
        """
        with self._written(), self._journal:
            self._journal.execute(
                "INSERT OR IGNORE INTO keys VALUES (?, ?)", (name, System().bytes(32))
            )
        row = self._journal.execute("SELECT key FROM keys WHERE name = ?", (name,)).fetchone()
        return bytes(row[0])

    @contextmanager
    def _written(self) -> Iterator[None]:
        """A disk that is full, read-only or gone is told in one sentence."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> DiskRefused:
        reason = error.strerror if isinstance(error, OSError) else error
        return DiskRefused(
            f"cannot write in {self.folder} ({reason}); what was finished is kept: make room, and "
            f"run the same command again to go on."
        )

    def _greet(self, command: str, *, fresh: bool) -> None:
        (chunks,) = self._journal.execute("SELECT COUNT(*) FROM chunks").fetchone()
        self.log.opened(command, chunks, fresh=fresh)

    def _claim(self, settings: Mapping[str, object]) -> None:
        text = json.dumps(settings, sort_keys=True, allow_nan=False)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        with self._journal:
            self._journal.execute(
                "INSERT OR IGNORE INTO settings VALUES (1, ?, ?)", (fingerprint, text)
            )
        found, stored = self._journal.execute("SELECT fingerprint, text FROM settings").fetchone()
        if found != fingerprint:
            raise SettingsChanged(
                f"{self.folder} holds a run with other settings ({_differences(stored, text)}); "
                f"repeat them to resume, choose another folder, or start over with --fresh."
            )


@dataclass(frozen=True)
class RunListed:
    """A run folder: the command that made it, its finished chunks, and what it has written."""

    folder: Path
    command: str
    chunks: int
    results: tuple[str, ...]
    in_use: bool


def write_json(path: Path | str, document: Mapping[str, object]) -> None:
    """Write a result; the file is complete, or not there."""
    write_text(path, json.dumps(document, allow_nan=False, indent=2) + "\n")


def write_text(path: Path | str, text: str) -> None:
    """Write a file that is complete, or not there."""
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise InvalidInput(
            f"cannot write {target} ({error.strerror}); make room, or choose another folder."
        ) from error


def list_runs(parent: Path) -> list[RunListed]:
    """The run folders in `parent`, by name; nothing in them is changed."""
    return [_listed(path.parent) for path in sorted(parent.glob(f"*/{_JOURNAL}"))]


def _listed(folder: Path) -> RunListed:
    try:
        _hold(folder).close()
        in_use = False
    except RunInUse:
        in_use = True
    except InvalidInput:  # not ours to write to: nobody else's either
        in_use = False
    try:
        with closing(
            sqlite3.connect(f"{(folder / _JOURNAL).resolve().as_uri()}?mode=ro", uri=True)
        ) as reader:
            chunks = reader.execute("SELECT COUNT(*) FROM chunks").fetchone()[0]
            (text,) = reader.execute("SELECT text FROM settings").fetchone() or ("{}",)
        command = str(json.loads(text).get("command", "?"))
    except sqlite3.DatabaseError:
        command, chunks = "unreadable", 0
    results = tuple(path.name for path in sorted(folder.glob("*.json")))
    return RunListed(folder, command, chunks, results, in_use)


def _ending(error: BaseException | None) -> str:
    """How a process leaves its folder; of a bug only the kind, as its text may hold data."""
    if error is None:
        return "finished"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, TrilemmaError):
        return f"stopped: {error}"
    return f"failed: {type(error).__name__}"


def _hold(folder: Path) -> IO[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Append mode: opening must not empty a file that another process has locked.
        lock = (folder / _LOCK).open("a")
    except OSError as error:
        raise InvalidInput(
            f"cannot write to the run folder {folder} ({error.strerror}); choose another --out."
        ) from error
    try:
        # The kernel drops the lock when the process dies, so kill -9 leaves nothing to clean up.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise RunInUse(
            f"another process is working in {folder}; wait for it, or choose another --out."
        ) from None
    return lock


def _empty(folder: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            (folder / f"{_JOURNAL}{suffix}").unlink()


def _open(path: Path) -> sqlite3.Connection:
    journal = sqlite3.connect(path)
    try:
        journal.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit survives a power cut too; it costs 0.4 ms, and chunks take far longer.
        journal.execute("PRAGMA synchronous = FULL")
        journal.executescript(_SCHEMA)
    except sqlite3.DatabaseError as error:
        journal.close()
        if isinstance(error, sqlite3.OperationalError):  # the disk's fault, not the file's
            raise
        raise InvalidInput(
            f"{path} is not a journal of trilemma ({error}); choose another folder, "
            f"or start over with --fresh."
        ) from error
    return journal


def _differences(stored: str, wanted: str) -> str:
    """Which settings differ, in words: "units 100 there, 200 here"."""
    there, here = json.loads(stored), json.loads(wanted)
    names = [name for name in sorted({*there, *here}) if there.get(name) != here.get(name)]
    return "; ".join(
        f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in names
    )
