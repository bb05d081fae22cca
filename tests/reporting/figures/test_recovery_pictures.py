"""Pictures of recoveries: rows of records, whatever shape they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trilemma.game.job_results import Pictures, Shown
from trilemma.game.recovering.recoveries import Outcomes
from trilemma.records.range import InputSpec
from trilemma.reporting.figures.recovery_pictures import draw_recoveries, draw_suite


@pytest.mark.parametrize("shape", [(6,), (4, 4), (1, 4, 4), (3, 4, 4), (2, 3, 4)])
def test_records_of_any_shape_are_drawn(shape: tuple[int, ...], tmp_path: Path) -> None:
    units, records = 2, 3
    draw = np.random.default_rng(0)
    pictures = draw.random((units, records, *shape)).astype(np.float32)
    found = np.ones((units, 1, records), dtype=bool)
    outcomes = Outcomes(
        client=np.zeros(units, dtype=int), model=np.zeros(units, dtype=int),
        labels=np.zeros((units, records), dtype=int), recovered=found,
        similarity=np.full(found.shape, 30.0), failed=np.zeros((units, 1), dtype=bool),
        pictures=pictures,
    )  # fmt: skip
    file = tmp_path / "recoveries.png"
    draw_recoveries(file, pictures, [("none", outcomes)], InputSpec(shape, 0.0, 1.0), "dB")
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 2, 2), (4, 5)])
def test_a_row_for_each_attack(shape: tuple[int, ...], tmp_path: Path) -> None:
    levels = [[100] * int(np.prod(shape))] * 4
    mine = Shown(levels, levels, [True, False, True, False])

    def found(name: str) -> Pictures:
        return Pictures(levels, {name: mine})

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
