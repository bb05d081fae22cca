"""A gallery laid out: target records, what each attack makes of them, and what it picks."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilemma.reporting.words.numbers import count
from trilemma.reporting.words.protection_text import phrase

if TYPE_CHECKING:
    from trilemma.tuning.results.gallery import Cell, Column, Gallery, Label, Picture

__all__ = ["Board", "Row", "Sheet", "boards", "picture"]


@dataclass(frozen=True)
class Row:
    """One attack: for each record what it made (None: it only picks), its guess, and if right."""

    attack: str
    right: int
    cells: tuple[tuple[str | None, str, bool], ...]


@dataclass(frozen=True)
class Sheet:
    """One record of a table or text: its cells line by line, and what each attack makes of them.

    `attacks` are names and whether the pick is right; a line is a head, the target record's cell
    and those of the attacks, each with whether it is right.
    """

    attacks: tuple[tuple[str, bool], ...]
    lines: tuple[tuple[str, str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class Board:
    """The records of some games under one protection, and a row for each attack.

    Of tables and texts there is a sheet for each record instead.
    """

    title: str
    watched: str
    target: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    sheets: tuple[Sheet, ...] = ()


def boards(gallery: Gallery, weighing: Collection[str] = ()) -> tuple[Board, ...]:
    """One board without protection and one at the verdict, as far as the gallery has them.

    Attacks that are `weighing` the candidates make nothing: they only pick.
    """
    made = []
    for label, target in gallery.target.items():
        columns = [column for column in gallery.columns if column.label == label]
        if not columns:
            continue
        title = "Without protection"
        if label == "verdict":
            title = f"At the verdict: {phrase(columns[0].protection)}"
        rounds = columns[0].rounds
        watched = "one round that holds the record"
        if rounds > 1:
            watched = f"a training of {count(rounds, 'round')}"
        if gallery.heads:
            made.append(Board(title, watched, sheets=_sheets(gallery, label, columns, weighing)))
            continue
        shown = tuple(picture(_levels(item), gallery.shape) for item in target)
        rows = tuple(
            _row(column, gallery.shape, makes=column.attack not in weighing) for column in columns
        )
        made.append(Board(title, watched, shown, rows))
    return tuple(made)


def _sheets(
    gallery: Gallery, label: Label, columns: Sequence[Column], weighing: Collection[str]
) -> tuple[Sheet, ...]:
    made = []
    for place, record in enumerate(gallery.target[label]):
        shown = [
            (column.guessed if column.attack in weighing else column.made)[place]
            for column in columns
        ]
        lines = tuple(
            (head, _text(cell), tuple((_text(item), _right(item)) for item in beside))
            for head, cell, *beside in zip(gallery.heads, record, *shown, strict=True)
        )
        made.append(
            Sheet(tuple((column.attack, column.correct[place]) for column in columns), lines)
        )
    return tuple(made)


def _levels(shown: Picture) -> list[int]:
    return [item for item in shown if isinstance(item, int)]


def _text(cell: int | Cell) -> str:
    return str(cell) if isinstance(cell, int) else cell[0]


def _right(cell: int | Cell) -> bool:
    return not isinstance(cell, int) and cell[1]


def _row(column: Column, shape: tuple[int, int, int], *, makes: bool) -> Row:
    cells = tuple(
        (
            picture(_levels(made), shape) if makes else None,
            picture(_levels(guessed), shape),
            correct,
        )
        for made, guessed, correct in zip(column.made, column.guessed, column.correct, strict=True)
    )
    return Row(column.attack, sum(column.correct), cells)


def picture(levels: Sequence[int], shape: tuple[int, int, int]) -> str:
    """Levels 0 .. 255 of a picture [c, h, w], grey or of three colours, as a PNG in a data URI.

    >>> picture([0, 255], (1, 1, 2))[:27]
    'data:image/png;base64,iVBOR'
    """
    from PIL import Image

    pixels = np.asarray(levels, dtype=np.uint8).reshape(shape)
    image = Image.fromarray(np.moveaxis(pixels, 0, -1) if shape[0] == 3 else pixels[0])
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
