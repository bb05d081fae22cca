"""Paillier keys on disk: a private file that its owner alone can read, and a public one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from trilemma.crypto.new_files import write_new
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.errors import InvalidInput

__all__ = ["load_private", "load_public", "save_private", "save_public"]

_PRIVATE: Final = "trilemma paillier private key 1"
_PUBLIC: Final = "trilemma paillier public key 1"
_MAX_CHARACTERS: Final = 1 << 16  # of a file; the longest key takes an eighth


def save_private(key: PrivateKey, path: Path) -> None:
    """Writes the key with mode 0600; hand it to other clients out of band, not by the server.

    An existing file is never overwritten, since whatever it encrypted would be lost.
    """
    _write(path, _PRIVATE, dict(zip("pqh", key.reveal(), strict=True)), 0o600)


def load_private(path: Path, *, insecure: bool = False) -> PrivateKey:
    """The key that `save_private` wrote; refused where other users may read the file."""
    numbers = _read(path, _PRIVATE, "pqh")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise InvalidInput(
            f"{path} is open to other users; run chmod 600 on it, or make a new key."
        )
    return PrivateKey(numbers["p"], numbers["q"], numbers["h"], insecure=insecure)


def save_public(key: PublicKey, path: Path) -> None:
    """Writes the public part, which may go to anyone; an existing file is never overwritten."""
    _write(path, _PUBLIC, {"n": key.n, "h": key.h}, 0o644)


def load_public(path: Path, *, insecure: bool = False) -> PublicKey:
    """The key that `save_public` wrote."""
    numbers = _read(path, _PUBLIC, "nh")
    return PublicKey(numbers["n"], numbers["h"], insecure)


def _write(path: Path, kind: str, numbers: dict[str, int], mode: int) -> None:
    text = json.dumps({"kind": kind} | {name: hex(n) for name, n in numbers.items()}, indent=1)
    write_new(path, text + "\n", mode)


def _read(path: Path, kind: str, names: str) -> dict[str, int]:
    """The file's numbers; an error never quotes the file, which may hold a secret."""
    try:
        with path.open(encoding="ascii") as file:
            fields = json.loads(file.read(_MAX_CHARACTERS))
        if fields["kind"] == kind:
            return {name: int(fields[name], 16) for name in names}
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidInput(f"{path} is not a {kind[:-2]}; make one with `trilemma keys new`.")
