"""The picture of a suite: a row of records, and one for each attack and protection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trilemma.reporting.figures.suite import draw_suite


@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 2, 2), (4, 5)])
def test_a_row_for_each_attack(shape: tuple[int, ...], tmp_path: Path) -> None:
    levels = [[100] * int(np.prod(shape))] * 4
    mine = {"made": levels, "picked": levels, "correct": [True, False, True, False]}

    def found(name: str) -> dict[str, Any]:
        return {"tagged": levels, "attacks": {name: mine}}

    pictures = {"dlg": {"none": found("dlg")}}
    draw_suite(tmp_path / "one.png", pictures, shape)
    pictures["map"] = {"none": found("map"), "randomization": found("map")}
    draw_suite(tmp_path / "three.png", pictures, shape)
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "three.png") as three:
        assert three.width == one.width
        assert three.height == 2 * one.height, "four rows, not two"
        frame = np.asarray(one.convert("RGB")).reshape(-1, 3)
    orange = np.array([0xD5, 0x5E, 0x00])
    assert (np.abs(frame.astype(int) - orange).max(1) < 8).any(), "wrong picks have a frame"
