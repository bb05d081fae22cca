"""The picture of recoveries: a file, whatever shape the records have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilemma.estimation.recovering.recoveries import Outcomes
from trilemma.records.range import InputSpec
from trilemma.reporting.figures.recoveries import draw_recoveries


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
