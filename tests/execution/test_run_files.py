"""Files of a run: complete or not there, strange numbers refused, strange paths opened."""

from __future__ import annotations

import json
import math
import sqlite3
import string
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st

from trilemma.errors import InvalidInput, printable
from trilemma.execution.run_files import is_folder, parse_json, sqlite_url, write_json, write_text

quick = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def test_a_file_is_complete_or_not_there(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"value": [1, 2.5, None]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"value": [1, 2.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"value": math.nan})
    assert json.loads((tmp_path / "a.json").read_text()) == {"value": [1, 2.5, None]}
    with pytest.raises(InvalidInput, match="cannot write"):
        write_text(tmp_path / "none" / "a.json", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 50_000, "1e999", "[-1e999]", "1" * 400, "1" * 5000, "NaN",
     "-Infinity", "{", "", "1 2", b"\xff\xfe", "\ufeff1", "'a'"],
)  # fmt: skip
def test_what_is_no_json_with_finite_numbers_is_one_short_sentence(text: str | bytes) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_json(text)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, int | float) or math.isfinite(value)


@quick
@given(
    st.text(st.sampled_from('[]{}:,"0123456789.eE+-\\\nNaInfty tru'), max_size=40) | st.binary()
)
def test_any_text_is_a_finite_value_or_one_sentence(text: str | bytes) -> None:
    try:
        found = parse_json(text)
    except InvalidInput:
        return
    assert finite(found)
    assert found == json.loads(text)


@quick
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**300), 10**300))
def test_numbers_survive(value: float) -> None:
    assert parse_json(json.dumps(value)) == value


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.text(
        st.sampled_from(string.punctuation.replace("/", "") + " aé\n"), min_size=1, max_size=12
    )
)
def test_a_database_is_made_where_its_path_says(name: str) -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / f"x{name}"
        folder.mkdir()
        url = sqlite_url(folder / "study.sqlite")
        engine = sqlalchemy.create_engine(url.format())  # optuna fills a template
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("CREATE TABLE made (x)"))
        engine.dispose()
        assert [path.name for path in folder.iterdir()] == ["study.sqlite"]
        journal = sqlite3.connect(folder / "study.sqlite")
        assert journal.execute("SELECT name FROM sqlite_master").fetchall() == [("made",)]
        journal.close()


@quick
@given(st.text(st.characters()))
def test_what_is_printable_has_no_control_and_stays(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert shown == text or not text.isprintable()
    shown.encode()  # lone surrogates, as in a file's name that is no UTF-8, are written out


def test_a_path_that_the_system_refuses_is_no_folder(tmp_path: Path) -> None:
    assert is_folder(tmp_path)
    assert not is_folder(tmp_path / "none")
    assert not is_folder(tmp_path / ("x" * 9000))
    assert not is_folder(Path("a\0b"))
