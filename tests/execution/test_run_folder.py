"""A run's folder: one process at a time, a key for its owner only, no trace of nothing."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from trilemma.errors import InvalidInput
from trilemma.execution.journal import Run
from trilemma.execution.run_folder import Folder, RunInUse, in_use


def names(path: Path) -> list[str]:
    return [item.name for item in path.iterdir()]


def hold(path: Path) -> Folder:
    return Folder(path, files=("journal.sqlite",))


def test_a_folder_is_held_by_one_and_seen_to_be(tmp_path: Path) -> None:
    assert not in_use(tmp_path)
    held = hold(tmp_path)
    assert in_use(tmp_path)
    with pytest.raises(RunInUse, match="another process"):
        hold(tmp_path)
    held.leave(keep=True)
    assert not in_use(tmp_path)
    assert names(tmp_path) == ["lock"]


def test_who_keeps_nothing_leaves_only_what_was_there(tmp_path: Path) -> None:
    hold(tmp_path / "a" / "b").leave(keep=False)
    assert names(tmp_path) == []
    hold(tmp_path / "a").leave(keep=True)
    held = hold(tmp_path / "a" / "b")
    held.secret(needed=False)
    (held.path / "journal.sqlite").touch()
    held.leave(keep=False)
    assert names(tmp_path / "a") == ["lock"]


def test_a_lock_that_its_last_holder_removes_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and locking it, who held it removes it, and the folder too."""
    path, real, calls = tmp_path / "run", fcntl.flock, []

    def flock(file: object, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            (path / "lock").unlink()
            path.rmdir()
        real(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr("fcntl.flock", flock)
    held = hold(path)
    assert len(calls) == 2
    with pytest.raises(RunInUse):
        hold(path)
    held.leave(keep=False)
    assert names(tmp_path) == []


def test_a_key_stays_in_its_folder_and_is_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = os.open

    def watched(path: str, flags: int, mode: int = 0o777) -> int:
        made.append(mode)
        return real(path, flags, mode)

    monkeypatch.setattr("os.open", watched)
    old = os.umask(0)
    try:
        with Run.open(tmp_path / "a", {}) as run:
            key = run.key("data")
            run.commit("a", b"x")
    finally:
        os.umask(old)
    assert set(made) == {0o600}, "made so, not changed afterwards"
    assert stat.S_IMODE((tmp_path / "a" / "journal.sqlite").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a" / "run.key").stat().st_mode) == 0o600
    with Run.open(tmp_path / "a", {}) as run, Run.open(tmp_path / "b", {}) as other:
        assert run.key("data") == key
        assert run.key("study") != key
        assert other.key("data") != key
        assert len(key) == 32
    for file in (tmp_path / "a").iterdir():
        assert file.name == "run.key" or key not in file.read_bytes()


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"short")])
def test_a_lost_key_is_one_sentence_and_fresh_draws_another(tmp_path: Path, spoil: object) -> None:
    with Run.open(tmp_path, {}) as run:
        run.key("data")
        run.commit("a", b"x")
    assert callable(spoil)
    spoil(tmp_path / "run.key")
    with (
        Run.open(tmp_path, {}) as run,
        pytest.raises(InvalidInput, match=r"run.key is not the key .* --fresh\.$"),
    ):
        run.key("data")
    with Run.open(tmp_path, {}, fresh=True) as run:
        assert len(run.key("data")) == 32


def test_another_key_is_named_and_not_taken_for_other_data(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Run.open(tmp_path / name, {}) as run:
            run.key("data")
            run.commit("a", b"x")
    (tmp_path / "a" / "run.key").write_bytes((tmp_path / "b" / "run.key").read_bytes())
    with (
        Run.open(tmp_path / "a", {}) as run,
        pytest.raises(InvalidInput, match=r"run.key is not the key .* --fresh\.$"),
    ):
        run.key("data")


def test_a_journal_that_others_could_read_becomes_its_owners(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}) as run:
        run.commit("a", b"x")
    (tmp_path / "journal.sqlite").chmod(0o644)
    with Run.open(tmp_path, {}) as run:
        run.commit("b", b"x")
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("journal.sqlite*")}
    assert modes == {0o600}, "and what SQLite keeps beside it"


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}) as run:
        run.key("data")
        (tmp_path / "run.key").chmod(0o640)
        with pytest.raises(InvalidInput, match="run chmod 600 on it"):
            run.key("data")


def test_a_folder_that_cannot_be_made_leaves_no_parents(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="choose another --out"):
        hold(tmp_path / "runs" / ("x" * 300))
    with pytest.raises(InvalidInput, match="choose another --out"):
        hold(tmp_path / "runs" / ("x" * 9000))
    assert names(tmp_path) == []
