"""Verdicts of earlier schemas: shown in a plain page, and refused for anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.reporting import examples

from trilemma.errors import InvalidInput
from trilemma.execution.run_files import write_json
from trilemma.reporting.figures.figure_files import draw_figures
from trilemma.reporting.page.earlier_schemas import earlier_rows
from trilemma.reporting.page.page import write_report
from trilemma.reporting.run_results import Earlier, read_run
from trilemma.tuning.results.verdict import Verdict


@pytest.mark.parametrize("version", [1, 2])
def test_it_says_that_it_must_not_be_deployed(version: int, tmp_path: Path) -> None:
    write_json(tmp_path / "verdict.json", examples.earlier(version))
    found, folder = read_run(tmp_path)
    assert isinstance(found, Earlier)
    page = write_report(found, folder).read_text()
    assert f"This verdict of schema {version} is of an earlier version and must not" in page
    assert "must not be deployed" in page
    assert "<script" not in page
    for value in (
        "0.00012702081646218197",
        "0.218 [0.167, 0.275]",
        "candidates randomization leakage",
        "problem budget",
    ):
        assert value in page
    assert "recovered" not in page.split("What it holds")[1], "single points are left out"


def test_hostile_values_stay_text(tmp_path: Path) -> None:
    hostile = "</td><script>alert(1)</script>"
    document = {**examples.earlier(), "protection": hostile, hostile: hostile, "basis": [hostile]}
    write_json(tmp_path / "verdict.json", document)
    page = write_report(*read_run(tmp_path)).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_nothing_else_takes_it(tmp_path: Path) -> None:
    write_json(tmp_path / "verdict.json", examples.earlier())
    with pytest.raises(InvalidInput, match="what it claims is not what this version claims"):
        Verdict.load(tmp_path / "verdict.json")
    with pytest.raises(InvalidInput, match="trilemma report shows its values"):
        draw_figures(tmp_path)


def test_nesting_without_end_is_cut(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    rows = earlier_rows(Earlier(2, {"x": deep, "y": "\udcff\x1b[31m"}))
    assert rows[0][1] == "..."
    assert rows[1] == ("y", r"\udcff\x1b[31m")
