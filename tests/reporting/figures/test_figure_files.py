"""Figures as files: the right ones, with text as text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

from tests.reporting import examples

from trilemma.reporting.figures.figure_files import draw_figures
from trilemma.reporting.words.protection_text import family

CURVED = ["leakage", "costs", "front", "ranking"]


def words(path: Path) -> str:
    return " ".join("".join(item.itertext()) for item in ElementTree.parse(path).iter())


def test_a_verdict_gives_four_figures_with_real_text(tmp_path: Path) -> None:
    examples.verdict().save(tmp_path / "verdict.json")
    files = draw_figures(tmp_path)
    assert files == [tmp_path / "figures" / f"{name}.svg" for name in CURVED]
    text = {path.stem: words(path) for path in files}
    for mechanism in examples.TUNED:
        assert family(mechanism) in text["leakage"]
        assert family(mechanism) in text["costs"]
    for word in ("budget", "verdict", "tested with fresh games", "noise variance"):
        assert word in text["leakage"]
    assert "CPU seconds" in text["costs"]
    assert "a round takes" in text["front"]
    assert "2=  noise inside Paillier" in text["ranking"]


def test_a_front_gives_three_in_both_forms(tmp_path: Path) -> None:
    examples.front().save(tmp_path / "pareto.json")
    files = draw_figures(tmp_path / "pareto.json", tmp_path / "deep" / "out", "both")
    assert len(files) == 6
    for path in files:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")


def test_without_curves_only_the_ranking_is_drawn(tmp_path: Path) -> None:
    replace(examples.verdict(), curves=()).save(tmp_path / "verdict.json")
    files = draw_figures(tmp_path)
    assert [path.name for path in files] == ["ranking.svg"]
    again = draw_figures(tmp_path, tmp_path / "again")
    assert again[0].read_bytes() == files[0].read_bytes()
