"""Counts of recovered records as a table."""

from __future__ import annotations

import numpy as np
import pytest

from trilemma.beliefs.recovery import Criterion
from trilemma.game.recovering.criterion import Guess
from trilemma.game.recovering.recoveries import Outcomes
from trilemma.reporting.words.recovery_tables import show_recoveries

GUESS = Guess(Criterion("psnr", 20.0), None)


def outcomes(hits: int, units: int = 20, failed: int = 0) -> Outcomes:
    """Two clients in turn, one record a unit, the first `hits` recovered."""
    recovered = np.zeros((units, 1, 1), dtype=bool)
    recovered[:hits] = True
    diverged = np.zeros((units, 1), dtype=bool)
    diverged[units - failed :] = failed > 0
    return Outcomes(
        client=np.arange(units) % 2, model=np.arange(units),
        labels=np.zeros((units, 1), dtype=int), recovered=recovered,
        similarity=np.where(recovered, 30.0, 10.0), failed=diverged,
        pictures=np.zeros((0, 1, 4), dtype=np.float32),
    )  # fmt: skip


def test_each_protection_has_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("none", outcomes(18)), ("noise", outcomes(4))]
    show_recoveries("digits, DLG", rows, GUESS, 0.95)
    text = capsys.readouterr().out
    cells = [line.split() for line in text.splitlines()]
    assert ["recovered", "0.900", "0.200"] in cells
    assert ["median", "PSNR", "30", "10"] in cells
    assert "recovered: PSNR above 20 dB" in text
