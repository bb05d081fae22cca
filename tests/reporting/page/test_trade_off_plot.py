"""Curves of success against accuracy: the proof on top, nothing out of order, files alike."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from scipy.stats import norm
from tests.reporting.examples import verdict

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.game.estimates import Estimate
from trilemma.reporting.figures.figure_files import draw_figures
from trilemma.reporting.page.page import verdict_page
from trilemma.reporting.page.trade_off_plot import trade_off_plot, trade_off_words
from trilemma.reporting.words.trade_off_text import attacked
from trilemma.tuning.results.success_by_noise import AttackerRate, TradeOff, TradeOffPoint


def made() -> TradeOff:
    """Full batches over 150 rounds, an attacker who reaches a part of the proof."""
    points = []
    for z, lost in ((3.4, -0.01), (6.8, -0.005), (13.5, 0.0), (27.0, 0.06)):
        proof = float(norm.cdf(norm.ppf(1 / 38) + 150**0.5 / z))
        own = [(0, 0, 0.0, proof, 1 / 38)] * 2
        own += [(16, 1, 0.001, proof, 1 / 30), (16, 4, 0.01, proof, max(1 / 30, proof / 2))]
        points.append(
            TradeOffPoint(
                z,
                z**2 / 1e7,
                Estimate(0.94 - lost, 0.93 - lost, 0.95 - lost),
                lost,
                lost + 0.03,
                proof,
                tuple(
                    AttackerRate(knows, *cell)
                    for knows, cell in zip(KNOWLEDGE_LEVELS, own, strict=True)
                ),
            )
        )
    return TradeOff(38, "known", 150, 7, 6, 3, 2, 0.258, 0.95, tuple(points))


def test_the_proof_is_on_top_and_goes_through_its_points() -> None:
    plot = trade_off_plot(made())
    proof, *others = plot.curves
    assert proof.proved
    assert [curve.knows for curve in others] == ["rest", "candidates", "public", "nothing"]
    for curve in others:
        for (x, rate), (at, bound) in zip(curve.points, proof.points, strict=True):
            assert (x, rate <= bound) == (at, True)
        for (x, lower, upper), (at, bound) in zip(curve.band, proof.line, strict=True):
            assert x == at
            assert lower <= upper <= bound
    for stronger, weaker in pairwise(others):
        for (_, more), (_, less) in zip(stronger.points, weaker.points, strict=True):
            assert more >= less
    assert set(proof.points) <= set(proof.line)


def test_between_two_points_the_curve_is_the_closed_form() -> None:
    line = trade_off_plot(made()).curves[0].line
    z = 13.5 * 2**0.5  # half-way to 27 on a scale of decades, where half of what is lost is lost
    at = min(range(len(line)), key=lambda place: abs(line[place][0] - 0.03))
    assert line[at][0] == pytest.approx(0.03)
    assert line[at][1] == pytest.approx(norm.cdf(norm.ppf(1 / 38) + 150**0.5 / z), rel=1e-6)


def test_words_name_every_condition_and_both_baselines() -> None:
    said = trade_off_words(made())
    for part in (
        "150 rounds",
        "38 candidates",
        "sum of 7 clients, 6 honest noises",
        "3 trainings",
    ):
        assert part in said
    assert "against the best training without protection 3.0 points more are lost" in said
    assert attacked(made()).startswith("Knowing all other records, attackers were right in ")
    alone = replace(made(), summed=1, noises=1)
    assert "in each message, one honest noise is counted" in trade_off_words(alone)


def test_it_is_the_first_picture_of_page_and_files(tmp_path: Path) -> None:
    found = verdict(trade_off=made())
    page = verdict_page(found)
    assert page.index('id="answer"') < page.index('id="trade-off"') < page.index('id="tests"')
    assert 'id="trade-off"' not in verdict_page(verdict())
    found.save(tmp_path / "verdict.json")
    (first, *_) = draw_figures(tmp_path)
    text = first.read_text()
    assert first.name == "success.svg"
    for name in ("proved: anyone", "all other records", "public records", "limit 26 %"):
        assert name in text
