"""Key files are written once: what an overwritten key has encrypted or signed would be lost."""

from __future__ import annotations

import os
from pathlib import Path

from trilemma.errors import InvalidInput

__all__ = ["write_new"]


def write_new(path: Path, text: str, mode: int) -> None:
    """Writes a file with this mode; an existing one is never overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise InvalidInput(f"{path} exists already; choose another name.") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
