"""Errors: whatever they quote, their text is one printable line of bounded length."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.errors import InvalidInput, TrilemmaError, UnknownName, printable, sentence


@given(st.text() | st.text(min_size=900, max_size=2000))
def test_a_message_is_one_printable_line(text: str) -> None:
    for error in (InvalidInput(f"{text} is wrong; mend it."), UnknownName("door", text, ["a"])):
        assert str(error).isprintable()
        assert len(str(error)) <= 903
        assert str(error).endswith(".")
        str(error).encode("utf-8")


def test_a_short_message_is_as_it_was_written() -> None:
    assert str(TrilemmaError("é is no name; use another.")) == "é is no name; use another."
    assert str(pickle.loads(pickle.dumps(InvalidInput("a\nb")))) == r"a\nb"


def test_of_a_long_one_its_begin_and_its_end_are_kept() -> None:
    text = sentence("the name " + "x" * 5000 + " is too long; use a shorter one.")
    assert text.startswith("the name xxx")
    assert text.endswith("xxx is too long; use a shorter one.")


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b", "\udcff", "\u202e", "\u2028", "a\r\n"])
def test_nothing_speaks_to_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
