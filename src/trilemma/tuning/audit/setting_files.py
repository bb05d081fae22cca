"""Settings as they stand in files, which are read and never run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilemma.errors import InvalidInput
from trilemma.tuning.audit.setting_parts import Own, Part

__all__ = ["Read", "read_text"]

_LARGEST: Final = 1_000_000  # bytes of a file


@dataclass(frozen=True)
class Read:
    """The parts that files set, in the order in which they touch an update, and what to know."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.parts:
            object.__setattr__(self, "parts", (Own("none"),))


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidInput(f"{path} has more than {_LARGEST:,} bytes; name another file.")
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {path} ({error.strerror}); check its name.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is no text; check its name.") from None
