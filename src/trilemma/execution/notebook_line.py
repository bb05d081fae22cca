"""One line of a notebook's output that is written over and over."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["notebook_cell"]


def notebook_cell() -> Callable[[str], None] | None:
    """What shows a line in the cell that runs, in place of the last; None outside of notebooks."""
    shell: Any = sys.modules.get("IPython")  # a notebook's kernel has imported it
    if shell is None or not hasattr(shell.get_ipython(), "kernel"):
        return None
    handle: list[Any] = []

    def show(line: str) -> None:
        content = {"text/plain": line}
        if handle:
            handle[0].update(content, raw=True)
        else:
            handle.append(shell.display.display(content, raw=True, display_id=True))

    return show
