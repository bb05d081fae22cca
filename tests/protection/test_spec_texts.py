"""Parts as text: a name, and what differs from the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from trilemma.errors import InvalidInput
from trilemma.protection.spec_texts import described


@dataclass(frozen=True)
class Part:
    size: float
    word: str = "some"
    made: int = field(default=0, init=False)


def test_what_differs_from_the_defaults_is_written() -> None:
    name = f"{__name__}:Part"
    assert described(Part(0.1)) == f"{name}:size=0.1"
    assert described(Part(2, "other")) == f"{name}:size=2,word='other'"
    assert described(Part(2, "other"), "part") == "part:size=2,word='other'"


def test_what_has_no_fields_cannot_be_written() -> None:
    with pytest.raises(InvalidInput, match="no dataclass"):
        described(object())
