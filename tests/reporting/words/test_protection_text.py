"""Protections in words, and specs that can be read."""

from __future__ import annotations

import re

import pytest
from tests.reporting import examples

from trilemma.protection.specs import parse_protection
from trilemma.reporting.words.protection_text import family, phrase, short_spec, strength
from trilemma.tuning.families.family import FAMILIES


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
        ("secret-sharing:ring_bits=32", "secret sharing"),
        ("secret-sharing:bound=0.5", "masks bounded by 0.5"),
        (
            "randomization:variance=0.01+compression:keep=0.1+secret-sharing",
            (
                "noise of variance 0.01 and compression to a random 10 % of the coordinates "
                "inside secret sharing"
            ),
        ),
        ("paillier:bits=3072,mode=blind", "Paillier encryption (the server reads nothing)"),
        (
            "randomization:variance=0.001+paillier:bits=3072,mode=open",
            "noise of variance 0.001 inside Paillier encryption (the server reads the sum)",
        ),
    ],
)
def test_protections_in_words(spec: str, words: str) -> None:
    assert phrase(spec) == words


def test_a_short_spec_is_the_spec_but_for_digits() -> None:
    short = short_spec(examples.TUNED_SPEC)
    assert short.startswith("randomization:variance=0.00127+secret-sharing:clip_range=8,")
    assert "max_weight=1500" in short, "whole numbers stay"
    assert not re.search(r"\d{9,}", short)
    assert parse_protection(short).transport == parse_protection(examples.TUNED_SPEC).transport


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_words_of_its_own(name: str) -> None:
    words = family(name)
    assert "+" not in words
    assert sum(family(other) == words for other in FAMILIES) == 1
    tuned = name not in ("secret-sharing", "paillier")
    assert (strength(name, 0.02) == "nothing to tune") is not tuned
    if tuned:
        assert re.search(r"0.02|2 %", strength(name, 0.02))
