"""A gallery laid out: tagged records, what each attack makes of them, and what it picks."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilemma.reporting.words.numbers import count
from trilemma.reporting.words.protections import phrase

if TYPE_CHECKING:
    from trilemma.tuning.results.gallery import Column, Gallery

__all__ = ["Board", "Row", "boards", "picture"]


@dataclass(frozen=True)
class Row:
    """One attack: for each record what it made (None: it only picks), its pick, and if right."""

    attack: str
    right: int
    cells: tuple[tuple[str | None, str, bool], ...]


@dataclass(frozen=True)
class Board:
    """The records of some games under one protection, and a row for each attack."""

    title: str
    watched: str
    tagged: tuple[str, ...]
    rows: tuple[Row, ...]


def boards(gallery: Gallery, weighing: Collection[str] = ()) -> tuple[Board, ...]:
    """One board without protection and one at the verdict, as far as the gallery has them.

    Attacks that are `weighing` the candidates make nothing: they only pick.
    """
    made = []
    for label, tagged in gallery.tagged.items():
        columns = [each for each in gallery.columns if each.label == label]
        if not columns:
            continue
        title = "Without protection"
        if label == "verdict":
            title = f"At the verdict: {phrase(columns[0].protection)}"
        rounds = columns[0].rounds
        watched = "one round that holds the record"
        if rounds > 1:
            watched = f"a training of {count(rounds, 'round')}"
        shown = tuple(picture(each, gallery.shape) for each in tagged)
        rows = tuple(
            _row(each, gallery.shape, makes=each.attack not in weighing) for each in columns
        )
        made.append(Board(title, watched, shown, rows))
    return tuple(made)


def _row(column: Column, shape: tuple[int, int, int], *, makes: bool) -> Row:
    cells = tuple(
        (picture(made, shape) if makes else None, picture(picked, shape), correct)
        for made, picked, correct in zip(column.made, column.picked, column.correct, strict=True)
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
