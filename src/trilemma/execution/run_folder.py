"""A run's folder: held by one process at a time, with a secret that its owner alone can read.

A process that leaves nothing to keep leaves no trace either, so that a command that was refused
does not stand in the way of the corrected one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from trilemma.entropy import System
from trilemma.errors import InvalidInput, TrilemmaError

__all__ = ["Folder", "RunInUse", "in_use"]

_LOCK: Final = "lock"
_SECRET: Final = "run.key"
_SECRET_BYTES: Final = 32


class RunInUse(TrilemmaError):
    """Another process works in the same folder."""


class Folder:
    """The folder at `path`, made and locked; `files` are those that a run writes there."""

    def __init__(self, path: Path, *, files: tuple[str, ...]) -> None:
        self.path: Final = path
        self._made: list[Path] = []
        try:
            self._made = [parent for parent in (path, *path.parents) if not parent.exists()]
            files = (*files, _LOCK, _SECRET)
            self._new = [path / name for name in files if not (path / name).exists()]
            self._lock = _hold(path)
        except OSError as error:
            self._unmake()
            raise InvalidInput(
                f"cannot write to the run folder {path} ({error.strerror}); choose another --out."
            ) from error

    def leave(self, *, keep: bool) -> None:
        """Give the folder back; what was not there before goes again unless it is to `keep`."""
        if not keep:
            with suppress(OSError):
                for file in self._new:
                    file.unlink(missing_ok=True)
            self._unmake()
        self._lock.close()

    def _unmake(self) -> None:
        """Take away the folders that were not there before; those with a file in them stay."""
        for folder in self._made:
            with suppress(OSError):  # where the child could not be made, its parents were
                folder.rmdir()

    def secret(self, *, needed: bool) -> bytes:
        """32 bytes that stay in this folder; drawn anew where there are none, unless `needed`."""
        path = self.path / _SECRET
        found = _read_secret(path)
        if found is None and needed:
            raise self.replaced()
        return found or _write_secret(path)

    def replaced(self) -> InvalidInput:
        """What to say where the secret is another than the run's."""
        return InvalidInput(
            f"{self.path / _SECRET} is not the key that this run began with; bring it back to "
            f"resume, choose another folder, or start over with --fresh."
        )


def in_use(path: Path) -> bool:
    """Whether a process works in the folder at this moment."""
    try:
        with (path / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock, or none of ours
        return False
    return False


def _hold(path: Path) -> IO[str]:
    """The folder's lock; who held it until just now may be removing both."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            # Append mode: opening must not empty a file that another process has locked.
            lock = (path / _LOCK).open("a")
        except FileNotFoundError:
            continue
        try:
            # The kernel drops the lock when the process dies: kill -9 leaves nothing to clean up.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise RunInUse(
                f"another process is working in {path}; wait for it, or choose another --out."
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), (path / _LOCK).stat()):
                return lock
        lock.close()


def _read_secret(path: Path) -> bytes | None:
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return None
    if path.stat().st_mode & 0o077:
        raise InvalidInput(f"{path} is open to other users; run chmod 600 on it.")
    return found if len(found) == _SECRET_BYTES else None


def _write_secret(path: Path) -> bytes:
    secret = System().bytes(_SECRET_BYTES)
    path.unlink(missing_ok=True)  # a part of one, of a process that was killed
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    return secret
