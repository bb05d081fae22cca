"""A run on disk: a folder with a journal of finished chunks, from which the same command resumes.

Work is cut into fixed chunks; the same chunk gives the same payload whatever else runs, and each
one is committed as soon as it is finished. A process killed at any moment therefore loses at most
the chunks in flight, and a resumed run ends in the numbers of an undisturbed one.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.execution.run_folder import Folder
from trilemma.execution.run_log import LOG, RunLog
from trilemma.execution.store import Store

__all__ = ["JOURNAL", "DiskRefused", "Run", "SettingsChanged"]

JOURNAL: Final = "journal.sqlite"
_REFUSALS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_SHOWN: Final = 80
_KEY_CHECK: Final = ("run.key", "check")  # tells the key that the run began with from another


class DiskRefused(TrilemmaError):
    """The disk is full, read-only, or was taken away."""


class SettingsChanged(InvalidInput):
    """The folder holds chunks of a run with other settings, which must not be mixed."""


class Run:
    """A run folder, held by one process at a time; `Run.open` gives one.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with Run.open(folder, {"seed": 1}) as run:
    ...     run.commit("key of a job", b"payload")
    >>> with Run.open(folder, {"seed": 1}) as run:
    ...     run.committed("key of a job")
    b'payload'
    """

    def __init__(self, folder: Folder, store: Store, *, begun: bool) -> None:
        self.folder: Final = folder.path
        self.log: Final = RunLog(folder.path)
        self._folder, self._store = folder, store
        # Until its first chunk a run has no claim: it refuses nobody, and has deleted nothing.
        self._begun = begun
        self._settings: dict[tuple[str, str], str] = {}
        self._first: tuple[str, bytes] | None = None
        self._payloads: dict[str, bytes] | None = None  # read when somebody asks

    @classmethod
    def open(
        cls, folder: Path | str, settings: Mapping[str, object], *, fresh: bool = False
    ) -> Self:
        """A folder for a run whose numbers `settings` decide (never the number of workers).

        A folder with chunks of other settings is refused, unless `fresh`: then they are deleted as
        soon as there is a new chunk to keep. Where nothing comes to be kept, nothing is left.
        """
        with ExitStack() as undo:
            held = Folder(Path(folder), files=(JOURNAL, LOG))
            undo.callback(held.leave, keep=False)
            with _told(held.path):
                store = _store(held.path / JOURNAL, fresh=fresh)
            undo.callback(store.close)
            kept = 0 if fresh else store.count()
            run = cls(held, store, begun=kept > 0)
            run.require(settings)
            with _told(held.path):
                run.log.opened(str(settings.get("command", "run")), kept, fresh=fresh)
            undo.pop_all()
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        refusal = None
        if isinstance(error, OSError) and error.errno in _REFUSALS:  # by a result's file, say
            refusal = _refused(self.folder, error)
        with suppress(OSError):  # a full disk must not hide the error that it caused
            self.log.write(_ending(refusal or error))
        self.close(keep=self._begun or error is None)
        if refusal is not None:
            raise refusal from error

    def close(self, *, keep: bool = True) -> None:
        """Give the folder back, as it was before unless there is something to `keep`."""
        self._store.close()
        self._folder.leave(keep=keep)

    def require(self, settings: Mapping[str, object], *, whose: str = "") -> None:
        """Refuse to resume unless the run's chunks were made with just these settings of `whose`.

        None is as good as no setting. To be called before the first chunk, which is committed with
        all settings of all owners.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        wanted = {(whose, name): _text(name, value) for name, value in given.items()}
        if self._begun:
            stored = self._store.settings().items()
            there = {key: value for key, value in stored if key[0] == whose}
            for key in (*wanted, *there):
                if wanted.get(key) != there.get(key):
                    raise SettingsChanged(
                        f"{self.folder} holds a run with other settings "
                        f"({f'{whose} ' if whose else ''}{key[1]} {_shown(there.get(key))} there, "
                        f"{_shown(wanted.get(key))} here); set it back to resume, choose another "
                        f"folder, or start over with --fresh."
                    )
        self._settings |= wanted

    def commit(self, key: str, payload: bytes) -> None:
        """Write one finished chunk, durable when this returns; a chunk is never written twice."""
        chunks = [(key, payload)]
        if not self._begun and self._first is not None:
            chunks.insert(0, self._first)
        with _told(self.folder):
            for chunk in chunks:
                if self._begun:
                    self._store.write(*chunk)
                else:
                    self._store.begin(self._settings, *chunk)
                    self._begun = True
        if self._payloads is not None:
            self._payloads.update(chunks)

    def first(self, key: str, payload: bytes) -> None:
        """Have a chunk written before all others, once there is another to write.

        What no work went into is no reason to claim a folder, nor to delete what it holds.
        """
        if self._begun:
            if self.committed(key) is None:
                self.commit(key, payload)
        else:
            self._first = key, payload

    def committed(self, key: str) -> bytes | None:
        """The payload of a finished chunk; None where it is not finished."""
        if not self._begun:
            return None
        if self._payloads is None:
            self._payloads = self._store.payloads()
        return self._payloads.get(key)

    def key(self, name: str) -> bytes:
        """A secret of 32 bytes that stays in this folder; the same one whenever it is asked for.

        For keyed hashes of data: they tell the same data again, and nothing to who has no key.
        """
        with _told(self.folder):
            secret = self._folder.secret(needed=self._begun)
        check = _text("check", hmac.new(secret, b"check", hashlib.sha256).hexdigest())
        if self._begun and self._store.settings().get(_KEY_CHECK, check) != check:
            raise self._folder.replaced()
        self._settings[_KEY_CHECK] = check
        return hmac.new(secret, name.encode(), hashlib.sha256).digest()


def _store(path: Path, *, fresh: bool) -> Store:
    """The folder's store; a `fresh` start does not need what cannot be read."""
    try:
        store = Store.open(path)
        if fresh:
            try:
                store.check()
            except BaseException:
                store.close()
                raise
        return store
    except InvalidInput:
        if not fresh:
            raise
    Store.remove(path)
    return Store.open(path)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """A disk that is full, read-only or gone is told in one sentence."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise _refused(folder, error) from error


def _refused(folder: Path, error: Exception) -> DiskRefused:
    reason = error.strerror if isinstance(error, OSError) else error
    return DiskRefused(
        f"cannot write in {folder} ({reason}); what was finished is kept: make room, and run the "
        f"same command again to go on."
    )


def _ending(error: BaseException | None) -> str:
    """How a process leaves its folder; of a bug only the kind, as its text may hold data."""
    if error is None:
        return "finished"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, TrilemmaError):
        return f"stopped: {error}"
    return f"failed: {type(error).__name__}"


def _text(name: str, value: object) -> str:
    """A setting as JSON; equal settings have equal texts."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, default=_plain)
    except ValueError:
        raise InvalidInput(f"{name} must be a finite number, got {value}.") from None


def _plain(value: Any) -> Any:
    """NumPy's numbers are numbers."""
    if not hasattr(value, "item"):
        raise TypeError(f"a setting must be a plain value, got {type(value).__name__}")
    return value.item()


def _shown(text: str | None) -> str:
    if text is None:
        return "nothing"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
