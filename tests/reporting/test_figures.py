"""Figures as files: the right ones, with text as text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reporting import examples

from trilemma.reporting.figures import draw_figures

CURVED = ["leakage", "costs", "front", "ranking"]


def words(path: Path) -> str:
    return " ".join("".join(each.itertext()) for each in ElementTree.parse(path).iter())


def test_a_verdict_gives_four_figures_with_real_text(tmp_path: Path) -> None:
    examples.verdict().save(tmp_path / "verdict.json")
    files = draw_figures(tmp_path)
    assert files == [tmp_path / "figures" / f"{name}.svg" for name in CURVED]
    text = {path.stem: words(path) for path in files}
    for mechanism in examples.TUNED:
        assert mechanism in text["leakage"]
        assert mechanism in text["costs"]
    for word in ("budget", "Fisher prediction", "verdict", "γ*", "noise variance"):
        assert word in text["leakage"]
    assert "a round takes" in text["front"]
    assert "2=  compression" in text["ranking"]
    again = draw_figures(tmp_path, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in files]


@pytest.mark.parametrize(("form", "count"), [("png", 3), ("both", 6)])
def test_a_front_gives_three(form: str, count: int, tmp_path: Path) -> None:
    examples.front().save(tmp_path / "pareto.json")
    files = draw_figures(tmp_path / "pareto.json", tmp_path / "deep" / "out", form)  # type: ignore[arg-type]
    assert len(files) == count
    for path in files:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")


def test_without_curves_only_the_ranking_is_drawn(tmp_path: Path) -> None:
    replace(examples.verdict(), curves=(), predictions=()).save(tmp_path / "verdict.json")
    assert [path.name for path in draw_figures(tmp_path)] == ["ranking.svg"]
