"""The gallery on the page: every record, every attack, its guess, right or wrong."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.reporting import examples

from trilemma.errors import InvalidInput
from trilemma.reporting.page.gallery_rows import boards, picture
from trilemma.tuning.results.gallery import Column, Gallery

WEIGHING = ("gaussian-posterior",)


def pixels(uri: str) -> list[int]:
    image = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    return [int(value) for value in np.asarray(image).reshape(-1)]


def test_a_board_for_each_protection_with_a_row_for_each_attack() -> None:
    gallery = examples.gallery()
    bare, shielded = boards(gallery, WEIGHING)
    assert bare.title == "Without protection"
    assert shielded.title == "At the verdict: noise of variance 0.00127 inside secret sharing"
    assert shielded.watched == "a training of 150 rounds"
    for board in (bare, shielded):
        assert [row.attack for row in board.rows] == list(examples.ATTACKS)
        assert all(len(row.cells) == len(board.target) == 8 for row in board.rows)
    assert [row.right for row in bare.rows] == [8] * 6
    assert [row.right for row in shielded.rows] == [1] * 6
    assert [right for *_, right in shielded.rows[1].cells] == [n == 3 for n in range(8)]


def test_pictures_are_the_levels_of_the_gallery() -> None:
    gallery = examples.gallery()
    shielded = boards(gallery, WEIGHING)[1]
    assert [pixels(item) for item in shielded.target] == [
        list(item) for item in gallery.target["verdict"]
    ]
    column = next(c for c in gallery.columns if (c.label, c.attack) == ("verdict", "map"))
    row = next(item for item in shielded.rows if item.attack == "map")
    for (made, guessed, _), levels, choice in zip(
        row.cells, column.made, column.guessed, strict=True
    ):
        assert made is not None
        assert pixels(made) == list(levels)
        assert pixels(guessed) == list(choice)
    assert all(made is None for made, *_ in shielded.rows[0].cells), "a posterior only picks"


def test_colours_keep_their_order() -> None:
    levels = [*([255] * 4), *([128] * 4), *([0] * 4)]  # red, green, blue of 2 x 2
    assert pixels(picture(levels, (3, 2, 2))) == [255, 128, 0] * 4


def test_a_table_is_shown_as_sheets_with_hits_marked(tmp_path: Path) -> None:
    age, sex = ("61", True), ("f", True)
    target = ((age, sex), (("40", True), ("m", True)))
    made = ((("60", True), ("m", False)), (("12", False), ("m", True)))
    columns = tuple(
        Column("unprotected", "none", name, 1, made, target, (True, False))
        for name in ("tableak", *WEIGHING)
    )
    gallery = Gallery((1, 1, 3), 0.0, 1.0, {"unprotected": target}, columns, ("age", "sex"))
    (board,) = boards(gallery, WEIGHING)
    assert not board.target
    first, second = board.sheets
    assert first.attacks == (("tableak", True), ("gaussian-posterior", True))
    assert first.lines == (
        ("age", "61", (("60", True), ("61", True))),
        ("sex", "f", (("m", False), ("f", True))),
    ), "an attack that weighs the candidates shows its guess"
    assert second.lines[0] == ("age", "40", (("12", False), ("40", True)))
    gallery.save(tmp_path / "gallery.json")
    assert Gallery.load(tmp_path / "gallery.json") == gallery
    with pytest.raises(InvalidInput, match="levels, or cells under 2 heads"):
        Gallery((1, 1, 2), 0.0, 1.0, {"unprotected": ((1, 2),)}, (), ("age", "sex"))
