"""A file that a node must not forget: whole, checked, its owner's alone."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from trilemma.errors import InvalidInput
from trilemma.execution.durable_file import KeptFile


@pytest.fixture
def file(tmp_path: Path) -> KeptFile:
    return KeptFile(tmp_path / "kept", "test 1", "notebook", "write another")


def read(file: KeptFile) -> object:
    with file.held():
        return file.read(lambda data: data["a"], "nothing")


def test_what_is_written_is_read_again(file: KeptFile) -> None:
    assert read(file) == "nothing"
    for value in ([1], {"b": None}):
        with file.held():
            file.write({"a": value})
        assert read(KeptFile(file.path, file.kind, "", "")) == value
    assert {item.stat().st_mode & 0o777 for item in file.path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("harm", ["cut", "changed", "other kind", "no field", "binary", "deep"])
def test_a_damaged_file_is_refused_by_its_name(file: KeptFile, harm: str) -> None:
    with file.held():
        file.write({"a": 1} if harm != "no field" else {"b": 1})
    text = file.path.read_bytes()
    bad = {
        "cut": text[:-9],
        "changed": text.replace(b'"a": 1', b'"a": 2'),
        "other kind": json.dumps(json.loads(text) | {"kind": "test 2"}).encode(),
        "no field": text,
        "binary": b"\xff\xfe",
        "deep": b"[" * 100_000,
    }[harm]
    file.path.write_bytes(bad)
    with pytest.raises(InvalidInput, match=r"the notebook .* is damaged.*; write another\."):
        read(file)
    assert file.path.read_bytes() == bad


def test_a_file_that_others_can_read_or_nobody_can_write_is_told(
    file: KeptFile, tmp_path: Path
) -> None:
    with file.held():
        file.write({"a": 1})
    file.path.chmod(0o644)
    with pytest.raises(InvalidInput, match="is open to other users; run chmod 600"):
        read(file)
    away = KeptFile(tmp_path / "none" / "kept", "test 1", "notebook", "")
    with pytest.raises(InvalidInput, match=r"notebook .* cannot be read or written \(No such"):
        read(away)


def test_of_documents_one_behind_the_other_the_last_whole_one_counts(file: KeptFile) -> None:
    sizes = []
    for value in range(200):
        with file.held():
            file.add({"a": value, "more": "x" * 1000})
        assert read(file) == value
        sizes.append(file.path.stat().st_size)
    assert max(sizes) < 70_000, "it is written anew when it is long"
    assert sum(b < a for a, b in pairwise(sizes)) == 3
    whole = file.path.read_bytes()
    document = whole[-(sizes[0]) :]
    for length in (1, sizes[0] // 2, sizes[0] - 1):
        file.path.write_bytes(whole + document[:length])  # a crash while it was written
        assert read(file) == 199
        with file.held():
            file.add({"a": -1})
        assert read(file) == -1
    file.path.write_bytes(whole.replace(b'"a": 199', b'"a": 198'))
    with pytest.raises(InvalidInput, match="is damaged"):
        read(file)


def test_a_write_that_fails_leaves_the_old_one(
    file: KeptFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with file.held():
        file.write({"a": 1})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"), file.held():
        file.write({"a": 2})
    assert read(file) == 1
