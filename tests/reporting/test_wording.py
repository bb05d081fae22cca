"""Numbers in words, against Python's own formats."""

from __future__ import annotations

import random

import pytest

from trilemma.reporting.wording import number, percent, phrase


@pytest.mark.parametrize("seed", range(20))
def test_numbers_keep_three_digits(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        value = draw.choice([-1, 1]) * draw.random() * 10 ** draw.randint(-20, 12)
        assert float(number(value)) == pytest.approx(float(f"{value:.3g}"), rel=1e-12)
        assert len(number(value).lstrip("-").split("e")[0].replace(".", "").strip("0")) <= 3


def test_halves_go_away_from_zero() -> None:
    assert (number(0.5625), number(-0.5625), number(1.125)) == ("0.563", "-0.563", "1.13")
    assert percent(0.0005) == "0.1 %"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("none", "no protection"),
        (
            "randomization:variance=0.002,clip=1.5",
            "noise of variance 0.002 on updates clipped to norm 1.5",
        ),
        ("compression:keep=0.1", "compression to a random 10 % of the coordinates"),
        ("top-k:keep=0.01", "compression to the largest 1 % of the coordinates"),
        ("secret-sharing:ring_bits=32", "secure aggregation"),
        ("secret-sharing:bound=0.5", "masks bounded by 0.5"),
        ("paillier:bits=3072,mode=blind", "Paillier encryption (the server reads nothing)"),
        (
            "randomization:variance=0.001+paillier:bits=3072,mode=reveal",
            "noise of variance 0.001 inside Paillier encryption (the server reads the sum)",
        ),
    ],
)
def test_protections_in_words(spec: str, words: str) -> None:
    assert phrase(spec) == words
