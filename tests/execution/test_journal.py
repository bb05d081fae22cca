"""A run: what was committed stays, what was made otherwise is refused, what failed is gone."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilemma.errors import InvalidInput
from trilemma.execution.journal import DiskRefused, Run, SettingsChanged
from trilemma.execution.run_folder import RunInUse
from trilemma.execution.run_log import RunLog


def test_committed_chunks_are_there_again(tmp_path: Path) -> None:
    with Run.open(tmp_path, {"seed": 1}) as run:
        run.commit("a 3", b"three")
        run.commit("b 3", b"other stage")
    with Run.open(tmp_path, {"seed": 1}) as run:
        assert run.committed("a 3") == b"three"
        assert run.committed("b 3") == b"other stage"
        assert run.committed("c") is None


def test_a_chunk_is_never_written_twice(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}) as run:
        run.commit("a", b"x")
        with pytest.raises(sqlite3.IntegrityError):
            run.commit("a", b"y")
        assert run.committed("a") == b"x"


def begin(folder: Path, settings: dict[str, object], **whose: dict[str, object]) -> None:
    """A run with one chunk."""
    with Run.open(folder, settings) as run:
        for name, more in whose.items():
            run.require(more, whose=name)
        run.commit("a", b"x")


def check(*done: object) -> None:
    raise InvalidInput("units must be at least 20, got 10.")


def test_the_first_setting_that_differs_is_named_with_both_values(tmp_path: Path) -> None:
    begin(tmp_path, {"seed": 1, "units": 10, "alpha": 0.5})
    changes: list[tuple[dict[str, object], str]] = [
        ({"seed": 1, "units": 20, "alpha": 0.7}, "units 10 there, 20 here"),
        ({"seed": 1, "units": 10}, "alpha 0.5 there, nothing here"),
        ({"seed": 1, "units": 10, "alpha": None}, "alpha 0.5 there, nothing here"),
        ({"seed": True, "units": 10, "alpha": 0.5}, "seed 1 there, true here"),
        ({"seed": 1, "units": 10, "alpha": 0.5, "x": "y"}, 'x nothing there, "y" here'),
    ]
    for changed, difference in changes:
        with pytest.raises(SettingsChanged) as error:
            Run.open(tmp_path, changed)
        assert str(error.value) == (
            f"{tmp_path} holds a run with other settings ({difference}); set it back to resume, "
            f"choose another folder, or start over with --fresh."
        )
    with Run.open(tmp_path, {"units": np.int64(10), "alpha": np.float32(0.5), "seed": 1}) as run:
        assert run.committed("a") == b"x", "neither order nor NumPy's types matter"


def test_what_becomes_known_later_is_part_of_the_identity_too(tmp_path: Path) -> None:
    begin(tmp_path, {"data": "folder"}, scenario={"data": "3fa9", "loss": "mse"})
    with Run.open(tmp_path, {"data": "folder"}) as run:
        run.require({"data": "3fa9", "loss": "mse"}, whose="scenario")
        with pytest.raises(SettingsChanged, match=r'\(scenario loss "mse" there, "mae" here\)'):
            run.require({"data": "3fa9", "loss": "mae"}, whose="scenario")
        with pytest.raises(SettingsChanged, match="machine cores nothing there, 2 here"):
            run.require({"cores": 2}, whose="machine")
        assert run.committed("a") == b"x", "nothing is lost"


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    begin(tmp_path, {"names": ["compression"] * 50})
    with pytest.raises(SettingsChanged) as error:
        Run.open(tmp_path, {"names": []})
    assert "…" in str(error.value)
    assert len(str(error.value)) < 300 + len(str(tmp_path))


def test_fresh_starts_over_but_only_when_there_is_something_new(tmp_path: Path) -> None:
    begin(tmp_path, {"units": 10})
    with Run.open(tmp_path, {"units": 20}, fresh=True) as run:
        assert run.committed("a") is None
    with pytest.raises(InvalidInput), Run.open(tmp_path, {"units": 20}, fresh=True):
        raise InvalidInput("no such scenario.")
    with Run.open(tmp_path, {"units": 10}) as run:
        assert run.committed("a") == b"x", "nothing is lost by a command that failed"
    with Run.open(tmp_path, {"units": 20}, fresh=True) as run:
        run.commit("b 5", b"y")
        assert run.committed("a") is None
    with Run.open(tmp_path, {"units": 20}) as run:
        assert (run.committed("a"), run.committed("b 5")) == (None, b"y")


def test_a_failed_command_leaves_nothing_that_refuses_the_corrected_one(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    with pytest.raises(InvalidInput, match="units"), Run.open(folder, {"units": 10}) as run:
        check(run.key("data"))
    assert list(tmp_path.iterdir()) == []
    begin(folder, {"units": 20})
    with pytest.raises(InvalidInput), Run.open(folder, {"units": 20}):
        raise InvalidInput("the model returns NaN.")
    with Run.open(folder, {"units": 20}) as run:
        assert run.committed("a") == b"x"


def test_a_folder_of_the_user_stays_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InvalidInput), Run.open(tmp_path, {}):
        raise InvalidInput("no.")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(InvalidInput, match="units"), Run.open(tmp_path / "new", {}) as run:
        check((run.folder / "study.sqlite").write_text("trials"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["study.sqlite"]


def test_a_process_killed_before_its_first_chunk_refuses_nobody(tmp_path: Path) -> None:
    Run.open(tmp_path, {"units": 10}).close()
    Run.open(tmp_path, {"units": 20}).close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, -float("inf")]])
def test_a_setting_that_is_no_finite_number_is_one_sentence(tmp_path: Path, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^budget must be a finite number, got .*\.$"):
        Run.open(tmp_path / "run", {"seed": 1, "budget": value})
    assert not (tmp_path / "run").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                               max_size=3),
    max_leaves=5,
)  # fmt: skip
SETTINGS = st.dictionaries(st.text("abc_", max_size=3), JSON, max_size=4)


def plain(document: dict[str, object]) -> str:
    given = {name: value for name, value in document.items() if value is not None}
    return json.dumps(given, sort_keys=True)


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(made=SETTINGS, asked=SETTINGS)
def test_a_run_resumes_with_the_same_settings_and_with_no_others(
    made: dict[str, object], asked: dict[str, object]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        begin(Path(name), made)
        for wanted in (json.loads(json.dumps(made)), asked):
            same = plain(wanted) == plain(made)
            with nullcontext() if same else pytest.raises(SettingsChanged) as error:
                Run.open(name, wanted).close()
            assert error is None or "\n" not in str(error.value)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}), pytest.raises(RunInUse, match="another process"):
        Run.open(tmp_path, {})
    Run.open(tmp_path, {}).close()


def test_kill_minus_nine_keeps_what_was_committed_and_frees_the_folder(tmp_path: Path) -> None:
    script = (
        "import sys, time; from trilemma.execution.journal import Run\n"
        "run = Run.open(sys.argv[1], {})\n"
        "run.commit('a', b'kept'); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with pytest.raises(RunInUse):
        Run.open(tmp_path, {})
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with Run.open(tmp_path, {}) as run:
        assert run.committed("a") == b"kept"


def test_a_folder_that_cannot_be_written_and_a_strange_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another --out"):
        Run.open(tmp_path / "file", {})
    (tmp_path / "journal.sqlite").write_text("not a database, but long enough to be read as one")
    with pytest.raises(InvalidInput, match="not a journal"):
        Run.open(tmp_path, {})
    Run.open(tmp_path, {}, fresh=True).close()


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}) as run:
        run.commit("a", b"kept")
        connection = run._store._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskRefused, match="make room") as error:
            run.commit("a 1", bytes(100_000))
        assert "\n" not in str(error.value)
    with Run.open(tmp_path, {}) as run:
        assert run.committed("a") == b"kept"


def test_a_journal_and_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a" / "journal.sqlite").mkdir(parents=True)
    with pytest.raises(DiskRefused, match="unable to open"):
        Run.open(tmp_path / "a", {})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.log").symlink_to("/dev/full")
    with pytest.raises(DiskRefused, match="No space left on device"):
        Run.open(tmp_path / "b", {})
    (tmp_path / "b" / "run.log").unlink()
    Run.open(tmp_path / "b", {}).close()  # the lock was given back


def test_a_result_that_does_not_fit_is_one_sentence_in_the_log_too(tmp_path: Path) -> None:
    begin(tmp_path, {})
    with pytest.raises(DiskRefused, match="No space left") as error, Run.open(tmp_path, {}):
        Path("/dev/full").write_text("a picture, say")
    assert RunLog(tmp_path).lines()[-1].endswith(f" stopped: {error.value}")
    with pytest.raises(FileNotFoundError), Run.open(tmp_path, {}):
        (tmp_path / "none").read_text()  # no fault of the disk


def test_what_stands_before_all_chunks_is_written_with_the_first(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", {}) as run:
        run.first("before", b"0")
        assert run.committed("before") is None
        run.commit("a 3", b"3")
        run.commit("a 4", b"4")
    with Run.open(tmp_path / "run", {}) as run:
        run.first("before", b"another")
        assert [run.committed(key) for key in ("before", "a 3", "a 4")] == [b"0", b"3", b"4"]
        run.first("late", b"1")
        run.first("late", b"2")
        assert run.committed("late") == b"1"


def fail_after_the_first(
    folder: Path, settings: dict[str, object], *, fresh: bool = False
) -> None:
    with Run.open(folder, settings, fresh=fresh) as run:
        run.first("before", b"0")
        raise InvalidInput("no cluster there.")


def test_what_stands_before_all_chunks_claims_no_folder_and_deletes_nothing(
    tmp_path: Path,
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    with pytest.raises(InvalidInput, match="no cluster"):
        fail_after_the_first(empty, {"seed": 1})
    with Run.open(empty, {"seed": 2}) as run:
        assert run.committed("before") is None
    with Run.open(full, {}) as run:
        run.commit("a", b"0")
    with pytest.raises(InvalidInput, match="no cluster"):
        fail_after_the_first(full, {}, fresh=True)
    with Run.open(full, {}) as run:
        assert run.committed("a") == b"0"
