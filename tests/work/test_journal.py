import os
import signal
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest

from trilemma.errors import InvalidInput
from trilemma.work.journal import DiskRefused, Run, RunInUse, SettingsChanged
from trilemma.work.log import RunLog


def test_committed_chunks_are_there_again(tmp_path: Path) -> None:
    with Run(tmp_path, {"seed": 1}) as run:
        run.commit("a", 3, b"three")
        run.commit("b", 3, b"other stage")
    with Run(tmp_path, {"seed": 1}) as run:
        assert run.committed("a") == {3: b"three"}
        assert run.committed("b") == {3: b"other stage"}
        assert run.committed("c") == {}


def test_a_chunk_is_never_written_twice(tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        run.commit("a", 0, b"x")
        with pytest.raises(sqlite3.IntegrityError):
            run.commit("a", 0, b"y")
        assert run.committed("a") == {0: b"x"}


def test_other_settings_are_refused_by_name_and_fresh_starts_over(tmp_path: Path) -> None:
    with Run(tmp_path, {"seed": 1, "units": 10}) as run:
        run.commit("a", 0, b"x")
    with pytest.raises(SettingsChanged, match=r"units 10 there, 20 here.*--fresh"):
        Run(tmp_path, {"seed": 1, "units": 20})
    with Run(tmp_path, {"seed": 1, "units": 20}, fresh=True) as run:
        assert run.committed("a") == {}


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with Run(tmp_path, {}), pytest.raises(RunInUse, match="another process"):
        Run(tmp_path, {})
    Run(tmp_path, {}).close()


def test_kill_minus_nine_keeps_what_was_committed_and_frees_the_folder(tmp_path: Path) -> None:
    script = (
        "import sys, time; from trilemma.work.journal import Run\n"
        "run = Run(sys.argv[1], {})\n"
        "run.commit('a', 0, b'kept'); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with pytest.raises(RunInUse):
        Run(tmp_path, {})
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with Run(tmp_path, {}) as run:
        assert run.committed("a") == {0: b"kept"}


def test_a_folder_that_cannot_be_written_and_a_strange_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="choose another --out"):
        Run(tmp_path / "file", {})
    (tmp_path / "journal.sqlite").write_text("not a database, but long enough to be read as one")
    with pytest.raises(InvalidInput, match="not a journal"):
        Run(tmp_path, {})
    Run(tmp_path, {}, fresh=True).close()


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    with Run(tmp_path, {}) as run:
        run.commit("a", 0, b"kept")
        (pages,) = run._journal.execute("PRAGMA page_count").fetchone()
        run._journal.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskRefused, match="make room") as error:
            run.commit("a", 1, bytes(100_000))
        assert "\n" not in str(error.value)
    with Run(tmp_path, {}) as run:
        assert run.committed("a") == {0: b"kept"}


def test_a_journal_and_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a" / "journal.sqlite").mkdir(parents=True)
    with pytest.raises(DiskRefused, match="unable to open"):
        Run(tmp_path / "a", {})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.log").symlink_to("/dev/full")
    with pytest.raises(DiskRefused, match="No space left on device"):
        Run(tmp_path / "b", {})
    (tmp_path / "b" / "run.log").unlink()
    Run(tmp_path / "b", {}).close()  # the lock was given back


def test_a_result_that_does_not_fit_is_one_sentence_in_the_log_too(tmp_path: Path) -> None:
    with pytest.raises(DiskRefused, match="No space left") as error, Run(tmp_path, {}):
        Path("/dev/full").write_text("a picture, say")
    assert events(tmp_path)[-1] == f"stopped: {error.value}"
    with pytest.raises(FileNotFoundError), Run(tmp_path, {}):
        (tmp_path / "none").read_text()  # no fault of the disk


def test_a_key_stays_in_its_folder(tmp_path: Path) -> None:
    with Run(tmp_path / "a", {}) as run:
        key = run.key("data")
    with Run(tmp_path / "a", {}) as run, Run(tmp_path / "b", {}) as other:
        assert run.key("data") == key
        assert other.key("data") != key
        assert len(key) == 32


def events(folder: Path) -> list[str]:
    """The log without its times, which must be in UTC and in order."""
    lines = RunLog(folder).lines()
    times = [datetime.fromisoformat(line.partition(" ")[0]) for line in lines]
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)
    return [line.partition(" ")[2] for line in lines]


def test_the_log_tells_what_every_process_did(tmp_path: Path) -> None:
    with Run(tmp_path, {"command": "tune"}) as run:
        run.commit("a", 0, b"x")
        run.log.write("control\nfinished on 1 chunks")
    with pytest.raises(KeyboardInterrupt), Run(tmp_path, {"command": "tune"}):
        raise KeyboardInterrupt
    with pytest.raises(InvalidInput), Run(tmp_path, {"command": "tune"}):
        raise InvalidInput("budget must lie in (0, 1), got 2.")
    with pytest.raises(ValueError, match="a record"), Run(tmp_path, {"command": "tune"}):
        raise ValueError("a record: 0.1 0.2 0.3")
    with pytest.raises(SettingsChanged):
        Run(tmp_path, {"command": "pareto"})
    Run(tmp_path, {"command": "pareto"}, fresh=True).close()
    now = f"trilemma {version('trilemma')}"
    assert events(tmp_path) == [
        f"{now}: tune started",
        "control finished on 1 chunks",
        "finished",
        f"{now}: tune resumed with 1 chunks",
        "interrupted",
        f"{now}: tune resumed with 1 chunks",
        "stopped: budget must lie in (0, 1), got 2.",
        f"{now}: tune resumed with 1 chunks",
        "failed: ValueError",
        f"{now}: pareto started over",
    ]


def test_the_log_survives_kill_minus_nine(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from trilemma.work.journal import Run\n"
        "Run(sys.argv[1], {}).log.write('kept')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == -signal.SIGKILL
    assert events(tmp_path)[-1] == "kept"
