"""The files that a new user starts from: one scenario, commented, and its settings."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

from trilemma.errors import InvalidInput

__all__ = ["Kind", "write_scaffold"]

Kind = Literal["image", "table", "text"]


def write_scaffold(folder: Path, kind: Kind) -> list[Path]:
    """Write my_federation.py and trilemma.toml, and say where; nothing is ever overwritten."""
    here = resources.files("trilemma.cli") / "templates"
    texts = {
        folder / "my_federation.py": (here / f"{kind}.py.txt").read_text("utf-8"),
        folder / "trilemma.toml": (here / "trilemma.toml").read_text("utf-8"),
    }
    try:
        for path in texts:
            if path.exists():
                raise InvalidInput(f"{path} is there already; name another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidInput(
            f"cannot write into {folder} ({error.strerror}); name another folder."
        ) from None
    return list(texts)
