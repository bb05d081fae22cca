"""Parts as text: a name, and what differs from the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from trilemma.errors import InvalidInput
from trilemma.protection.spec_texts import described
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transports.plain import Plain


@dataclass(frozen=True)
class Part:
    size: float
    word: str = "some"
    made: int = field(default=0, init=False)


def test_what_differs_from_the_defaults_is_written() -> None:
    name = f"{__name__}:Part"
    assert described(Part(0.1)) == f"{name}:size=0.1"
    assert described(Part(2, "other")) == f"{name}:size=2,word='other'"


def test_a_part_of_ours_goes_by_its_short_name() -> None:
    assert described(TopK(0.5)) == "top-k:keep=0.5"
    assert described(Plain()) == "plain"


def test_what_has_no_fields_cannot_be_written() -> None:
    with pytest.raises(InvalidInput, match="no dataclass"):
        described(object())
