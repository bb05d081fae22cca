"""The journal's file: what is damaged in it is told in one sentence, never computed with."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.execution.journal import Run
from trilemma.execution.store import Store

ROWS = {"a": b"zero", "b": b"seven", "c": b""}


def fill(folder: Path) -> Path:
    with Run.open(folder, {"command": "tune"}) as run:
        for key, payload in ROWS.items():
            run.commit(key, payload)
    return folder / "journal.sqlite"


def read(path: Path) -> dict[str, bytes]:
    with closing(Store.open(path)) as store:
        store.settings()
        return store.payloads()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chunks SET payload = x'00' WHERE key = 'b'",
        "UPDATE chunks SET payload = 'seven' WHERE key = 'b'",
        "UPDATE chunks SET payload = 1e999 WHERE key = 'b'",
        "UPDATE chunks SET key = 'd' WHERE key = 'b'",
        "UPDATE chunks SET key = x'00' WHERE key = 'b'",
        "UPDATE chunks SET digest = x'00'",
        "UPDATE chunks SET digest = 3.5",
        "UPDATE settings SET value = x'ff'",
        "UPDATE settings SET value = '\"pareto\"'",
        "UPDATE settings SET name = 'seed'",
        "UPDATE settings SET value = CAST(x'ff' AS TEXT)",
        "DROP TABLE chunks",
        "DROP TABLE settings",
        "ALTER TABLE chunks DROP COLUMN digest",
        "ALTER TABLE settings RENAME TO something",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 99",
    ],
)
def test_a_damaged_row_is_one_sentence(tmp_path: Path, damage: str) -> None:
    path = fill(tmp_path)
    assert read(path) == ROWS
    with closing(sqlite3.connect(path)) as journal:
        journal.executescript(damage)
    for look in (read, lambda path: checked(path)):
        with pytest.raises(InvalidInput, match=r"--fresh\.$") as error:
            look(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
    with Run.open(tmp_path, {}, fresh=True) as run:
        run.commit("a", b"new")
    assert read(path) == {"a": b"new"}


def checked(path: Path) -> None:
    with closing(Store.look(path)) as store:
        store.check()


def test_a_file_that_is_no_database_is_refused_and_an_empty_one_is_new(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database, but long enough to be read as one")
    with pytest.raises(InvalidInput, match=r"not a journal of trilemma.*--fresh\.$"):
        Store.open(path)
    path.write_bytes(b"")
    Store.open(path).close()
    assert read(path) == {}
    with pytest.raises(InvalidInput, match=r"cannot be read|cannot be used"):
        Store.look(tmp_path / "none")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return fill(tmp_path_factory.mktemp("run")).read_bytes()


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_bytes_changed_in_the_file_change_no_payload(
    whole: bytes, data: st.DataObject
) -> None:
    """It is used as it was, or refused in one sentence; no other error, no other payload."""
    spoilt = bytearray(whole)
    used = [place for place, byte in enumerate(whole) if byte]  # most of a page is empty
    for _ in range(data.draw(st.integers(1, 8))):
        spoilt[data.draw(st.sampled_from(used))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del spoilt[data.draw(st.integers(0, len(whole))) :]
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "journal.sqlite").write_bytes(spoilt)
        try:
            with Run.open(name, {"command": "tune"}) as run:
                found = {key: run.committed(key) for key in ROWS}
                run.commit("more", b"more")
        except TrilemmaError:
            return
        assert found in (ROWS, dict.fromkeys(ROWS)), "all of it, or an empty file"


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(rows=st.dictionaries(st.text(max_size=8), st.binary(max_size=64)))
def test_what_is_written_is_read_again(rows: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "journal.sqlite"
        with closing(Store.open(path)) as store:
            for key, payload in rows.items():
                store.write(key, payload)
        with closing(Store.look(path)) as store:
            store.check()
            assert store.count() == len(rows)
            assert store.payloads() == rows
