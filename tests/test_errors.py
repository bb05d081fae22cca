"""Errors name the value, and a name does not speak to the terminal."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.errors import (
    InvalidInput,
    TrilemmaError,
    UnknownName,
    place_of,
    printable,
    sentence,
    users_fault,
)
from trilemma.scenarios.scenario_calls import called


def test_an_unknown_name_is_near_a_known_one_or_lists_them() -> None:
    near = str(UnknownName("attack", "dgl", ["dlg", "idlg"]))
    assert near == "unknown attack 'dgl' (did you mean 'dlg'?); known: dlg, idlg."
    assert "did you mean" not in str(UnknownName("attack", "zzz", ["dlg"]))
    assert isinstance(UnknownName("attack", "x", []), InvalidInput)


def test_an_over_long_name_is_cut() -> None:
    assert len(str(UnknownName("attack", "x" * 100_000, ["dlg"]))) < 200


@pytest.mark.parametrize("kind", [InvalidInput, UnknownName])
def test_what_a_user_can_mend_has_one_base(kind: type[Exception]) -> None:
    assert issubclass(kind, TrilemmaError)
    assert issubclass(kind, ValueError)


@given(st.text())
def test_what_is_printed_can_be_printed(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)


def test_letters_of_any_language_stay() -> None:
    assert printable("η_u·ε_u ≤ 0.3, 日本") == "η_u·ε_u ≤ 0.3, 日本"
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"


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


def test_an_error_in_called_code_is_the_users_and_has_a_place(tmp_path: Path) -> None:
    file = tmp_path / "their_loss.py"
    file.write_text("def loss(x):\n    return x['a']\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(InvalidInput, match=rf"KeyError: 'a'; {file}, line 2\)"):
        called(lambda: names["loss"]({}), "mine", {})
    with pytest.raises(KeyError) as raised:
        names["loss"]({})
    assert place_of(raised.value) == "", "nothing of ours has called it"
    assert users_fault(raised.value) == ""
