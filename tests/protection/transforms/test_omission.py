"""Omission: places that are never sent."""

from __future__ import annotations

from tests.protection.transforms.applying import apply, some_values

from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.omission import Omission
from trilemma.testing import check_mechanism


def test_nothing_but_the_dropped_places_is_missing() -> None:
    values = some_values(10)
    sent = apply(Omission(((0, 2), (5, 6))), values)
    assert sent.known is not None
    assert sent.known.tolist() == [False, False, True, True, True, False, True, True, True, True]
    assert sent.values.tolist() == [
        value if known else 0.0
        for value, known in zip(values.tolist(), sent.known.tolist(), strict=True)
    ]


def test_contract() -> None:
    """Also in a sum: every client leaves out the same."""
    for text in ("omission:dropped=0-600/1900-2000", "omission:dropped=0-9+secret-sharing"):
        check_mechanism(
            parse_protection(text),
            refused=[lambda: Omission(()), lambda: Omission(((3, 3),))],
            tolerance=1e-4,
        )
