"""gallery.json: what is written is what is read, and a spoilt file gets one sentence."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trilemma.errors import InvalidInput
from trilemma.tuning.results.gallery import GALLERY, Column, Gallery


@pytest.fixture
def gallery() -> Gallery:
    target = (tuple(range(6)), tuple(range(6, 12)))
    column = Column("unprotected", "none", "analytic", 1, target, target, (True, True))
    return Gallery((1, 1, 6), 0.0, 1.0, {"unprotected": target}, (column,))


def test_a_gallery_survives_its_file(gallery: Gallery, tmp_path: Path) -> None:
    gallery.save(tmp_path / GALLERY)
    assert Gallery.load(tmp_path / GALLERY) == gallery


def test_pictures_of_records_are_their_owners_alone(gallery: Gallery, tmp_path: Path) -> None:
    (tmp_path / GALLERY).touch(0o644)
    gallery.save(tmp_path / GALLERY)
    assert stat.S_IMODE((tmp_path / GALLERY).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "[]", "no gallery of version 2"),
        (lambda text: text.replace('"gallery_version": 2', '"gallery_version": 1'), "version 2"),
        (lambda text: text.replace('"low"', '"floor"'), "is wrong"),
        (lambda text: text.replace('"correct": [', '"correct": [true,', 1), "one picture a rec"),
        (lambda text: text.replace('"made": [', '"made": [[999],', 1), "is wrong"),
        (lambda text: text.replace('"shape": [', '"shape": [2,', 1), "is wrong"),
    ],
)
def test_a_spoilt_gallery_gets_one_sentence(
    gallery: Gallery, tmp_path: Path, spoil: Any, word: str
) -> None:
    path = tmp_path / GALLERY
    gallery.save(path)
    text = path.read_text()
    assert spoil(text) != text
    path.write_text(spoil(text))
    with pytest.raises(InvalidInput, match=word) as error:
        Gallery.load(path)
    assert "\n" not in str(error.value)
    assert "trilemma tune" in str(error.value)


def test_pictures_of_another_size_are_refused(gallery: Gallery) -> None:
    with pytest.raises(InvalidInput, match="needs 12 levels"):
        replace(gallery, shape=(1, 2, 6))
