"""Numbers in words, against Python's own formats."""

from __future__ import annotations

import random
import re

import pytest

from trilemma.game.estimates import Estimate
from trilemma.reporting.words.numbers import hundred, lost, multiple, number, percent


@pytest.mark.parametrize("seed", range(20))
def test_numbers_keep_three_digits(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        value = draw.choice([-1, 1]) * draw.random() * 10 ** draw.randint(-20, 12)
        assert float(number(value)) == pytest.approx(float(f"{value:.3g}"), rel=1e-12)
        assert len(number(value).lstrip("-").split("e")[0].replace(".", "").strip("0")) <= 3


def test_halves_go_away_from_zero() -> None:
    assert (number(0.5625), number(-0.5625), number(1.125)) == ("0.563", "-0.563", "1.13")


@pytest.mark.parametrize("seed", range(5))
def test_percentages_have_two_digits_and_never_reach_the_whole(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        share = draw.choice(
            [draw.random(), 10 ** draw.uniform(-4, 0), 1 - 10 ** draw.uniform(-6, -2)]
        )
        said = percent(share).removesuffix(" %")
        assert float(said) == pytest.approx(100 * share, rel=0.051)
        assert len(said.replace(".", "").strip("0")) <= (2 if share < 0.995 else 3)
        assert float(said) < 100
    assert (percent(0.0), percent(1.0), percent(0.994)) == ("0 %", "100 %", "99 %")


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (0.2578, "26 of 100"),
        (1 / 38, "2.6 of 100"),
        (0.001, "0.1 of 100"),
        (0.0996, "10 of 100"),
        (0.0, "0 of 100"),
        (1.0, "100 of 100"),
    ],
)
def test_rates_of_a_hundred(rate: float, words: str) -> None:
    assert hundred(rate) == words
    assert float(words.partition(" ")[0]) == pytest.approx(100 * rate, rel=0.05, abs=1e-9)


def test_the_same_is_called_the_same() -> None:
    assert multiple(1.0, "bits") == "the same bits"
    assert multiple(0.9951, "bits") == "the same bits"
    assert multiple(1.01, "bits") == "1.01 times the bits"


@pytest.mark.parametrize(("low", "value", "high"), [(-0.05, -0.01, 0.03), (0.01, 0.02, 0.04)])
def test_a_loss_has_no_sign_and_a_gain_is_called_one(
    low: float, value: float, high: float
) -> None:
    said = lost(Estimate(value, low, high), "accuracy")
    assert "-" not in said
    found = re.findall(r"([\d.]+)(?: points)? (lost|gained)", said)
    signed = [float(amount) * (1 if way == "lost" else -1) for amount, way in found]
    assert signed == pytest.approx([100 * value, 100 * low, 100 * high])
    assert lost(Estimate(-0.0004, -0.0004, 0.0), "accuracy").startswith("0.0 points lost")
