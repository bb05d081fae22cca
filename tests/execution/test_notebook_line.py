"""Outside of a notebook there is no cell; inside, one line is written over."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from trilemma.execution.progress import notebook_cell


def test_no_notebook_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook_cell() is None
    shell = SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert notebook_cell() is None
    monkeypatch.setattr(shell, "get_ipython", lambda: SimpleNamespace())
    assert notebook_cell() is None, "a terminal's IPython"


def test_a_cell_shows_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: dict[str, str], *, raw: bool) -> None:
            shown[-1] = content["text/plain"]

    def display(content: dict[str, str], **_: Any) -> Handle:
        shown.append(content["text/plain"])
        return Handle()

    kernel = SimpleNamespace(kernel=None)
    shell = SimpleNamespace(get_ipython=lambda: kernel, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    cell = notebook_cell()
    assert cell is not None
    cell("first")
    cell("second")
    assert shown == ["second"]
