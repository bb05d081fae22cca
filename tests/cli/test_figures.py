"""`trilemma figures` writes the plots of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import here
from tests.cli.test_report import FIGURES
from tests.reporting import examples


def test_figures_prints_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples.verdict().save(tmp_path / "verdict.json")
    there = tmp_path / "plots"
    words = ("figures", str(tmp_path), "--out", str(there), "--format", "svg")
    code, out, _ = here(monkeypatch, capsys, *words)
    assert code == 0
    files = out.splitlines()
    assert files == [str(there / f"{n}.svg") for n in FIGURES]
    assert all(Path(file).exists() for file in files)
