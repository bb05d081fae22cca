"""What all printed results share: 80 columns, titles, bullets and tables without frames."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["Printer", "short"]

_WIDTH: Final = 80


class Printer:
    """Prints the same text on a terminal and on a pipe."""

    def __init__(self, width: int = _WIDTH) -> None:
        self._console = Console(highlight=False, soft_wrap=False, file=sys.stdout)
        self._console.width = min(self._console.width, width)

    def text(self, sentence: str, *, bold: bool = False) -> None:
        """A paragraph over the whole width."""
        self._console.print(Text(sentence, style="bold" if bold else ""))

    def title(self, sentence: str) -> None:
        """The start of a section."""
        self.text(f"\n{sentence}", bold=True)

    def note(self, sentence: str | Text) -> None:
        """A paragraph of a section; nothing for nothing."""
        if sentence:
            self._console.print(Padding(Text.assemble(sentence), (0, 2)))

    def bullets(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            grid = Table.grid()
            grid.add_row("  - ", Text(sentence))
            self._console.print(grid)

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and what is said of them, the first in bold."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column()
        for place, (name, said) in enumerate(rows):
            grid.add_row(name, Text(said, style="" if place else "bold", overflow="fold"))
        self._console.print(Padding(grid, (0, 2)))

    def table(
        self, columns: Iterable[str], rows: Iterable[Iterable[str]], *, gap: int = 1
    ) -> None:
        """A table; a row of one cell is a heading."""
        table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, gap, 0, 0))
        for name in columns:
            table.add_column(name, no_wrap=True)
        for row in rows:
            cells = [Text(cell) for cell in row]
            if len(cells) == 1:
                cells[0].stylize("italic")
            table.add_row(*cells)
        self._console.print(Padding(table, (0, 0, 0, 2)))


def short(strength: str) -> str:
    """A strength in words beside its family, which says what it is.

    >>> short("variance 0.00127"), short("nothing to tune")
    ('0.00127', '–')
    """
    return strength.removeprefix("variance ").replace("nothing to tune", "–")
