"""`trilemma tune` as a user meets it: text, files, bad input, a disk that is full."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import committed, comparable, here, run
from tests.cli.test_configuration import parsed
from tests.tuning.simulating import simulate

from trilemma.execution.run_log import RunLog
from trilemma.tuning.results.gallery import Gallery
from trilemma.tuning.results.verdict import Verdict

ATTACKS = ("--attacks", "gaussian-posterior,analytic")
QUICK = [
    *("--scenario", "tests.cli.own_scenario:shown", "--budget", "0.4", "--strengths", "2"),
    *("--seeds", "2", "--efficiency-weight", "0", *ATTACKS),
    *("--basis", "measured", "--families", "randomization,compression"),
]


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "calm"
    code, out, err = run("tune", *QUICK, "--out", str(folder), simulated=True)
    assert code == 0, err
    return folder, out


@pytest.fixture
def folder(tuned: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(tuned[0], tmp_path / "run"))


def test_the_text_is_the_summary_within_a_screen(tuned: tuple[Path, str]) -> None:
    folder, out = tuned
    *said, _, _ = out.splitlines()
    assert len(said) <= 23
    assert max(map(len, said)) <= 80
    assert "\n".join(said) == Verdict.load(folder / "verdict.json").summary()
    assert str(folder / "verdict.json") in out
    assert out.rstrip().endswith(str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_all_of_it_is_printed_in_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = here(monkeypatch, capsys, "tune", *QUICK, "--out", str(folder), "--full")
    verdict = Verdict.load(folder / "verdict.json")
    assert code == 0
    assert out.startswith(verdict.summary())
    for said in ("randomization:variance=", "a curious client", *verdict.limits):
        assert " ".join(said.split()[:5]) in " ".join(out.split())


def test_the_files_of_a_run(tuned: tuple[Path, str]) -> None:
    folder, _ = tuned
    verdict = Verdict.load(folder / "verdict.json")
    assert verdict.source == {"scenario": "tests.cli.own_scenario:shown"}
    assert verdict.show_records
    assert {column.label for column in Gallery.load(folder / "gallery.json").columns} == {
        "unprotected",
        "verdict",
    }
    assert (folder / "run.key").stat().st_mode & 0o077 == 0, "for its owner alone"


def test_the_verdict_names_the_command_that_repeats_it(tuned: tuple[Path, str]) -> None:
    program, command, *words = shlex.split(Verdict.load(tuned[0] / "verdict.json").reproduce)
    assert (program, command) == ("trilemma", "tune")
    assert parsed(words) == parsed(QUICK)


def test_json_is_the_file(
    tuned: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = tuned
    before = committed(folder)
    code, out, _ = here(monkeypatch, capsys, "tune", *QUICK, "--out", str(folder), "--json")
    assert code == 0
    assert json.loads(out) == json.loads((folder / "verdict.json").read_text())
    assert committed(folder) == before, "nothing is measured again"


def test_the_log_names_what_was_finished(tuned: tuple[Path, str]) -> None:
    events = [line.partition(" ")[2] for line in RunLog(tuned[0]).lines()]
    assert "tune started" in events[0]
    for name in ("baseline", "randomization", "compression", "curves", "rounds"):
        (line,) = (event for event in events if event.startswith(f"{name} finished on "))
        assert int(line.split()[-2]) > 0


def test_curves_may_be_had_later(
    tuned: tuple[Path, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["tune", *QUICK, "--out", str(folder), "--strengths"]
    code, _, err = here(monkeypatch, capsys, *words, "3")
    assert code == 0, err
    more, few = (Verdict.load(path / "verdict.json") for path in (folder, tuned[0]))
    assert len(more.curves) == len(few.curves) + 2
    assert more.candidates == few.candidates


def test_another_run_is_not_mixed_in(
    tuned: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", *QUICK, "--out", str(tuned[0])]
    for changed, said in (
        (("--seed", "1"), "seed 0 there, 1 here"),
        (("--budget", "0.5"), "budget 0.4 there, 0.5 here"),
        (("--knows", "rest"), 'knows "candidates" there, "rest" here'),
        (("--adversary", "client"), 'adversary "server" there, "client" here'),
    ):
        code, _, err = here(monkeypatch, capsys, *words, *changed)
        assert code == 2
        assert said in err


def test_fresh_starts_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", *QUICK, "--out", str(folder), "--families", "secret-sharing", "--fresh"]
    code, _, err = here(monkeypatch, capsys, *words)
    assert code == 0, err
    assert Verdict.load(folder / "verdict.json").chosen == "secret-sharing"


def test_no_answer_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(monkeypatch, summed=0.95)
    words = [*QUICK, "--families", "secret-sharing", "--out", str(tmp_path / "run")]
    code, out, _ = here(monkeypatch, capsys, "tune", *words)
    assert code == 1
    assert "larger batches" in " ".join(out.split())
    assert Verdict.load(tmp_path / "run" / "verdict.json").protection is None
    assert not (tmp_path / "run" / "gallery.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "1.5"],
        ["--budget", "nan"],
        ["--confidence", "1"],
        ["--families", "noise"],
        ["--attacks", "dgl"],
        ["--attacks", "exact-posterior"],
        ["--knows", "everything"],
        ["--adversary", "moon"],
        ["--seeds", "1"],
        ["--candidates", "22"],
        ["--scenario", "nothing"],
        ["--bandwidth", "-1"],
        ["--bandwidth", "inf"],
        ["--utility-weight", "1,2,3"],
        ["--workers", "0"],
        ["none.toml"],
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    code, out, err = here(monkeypatch, capsys, "tune", *QUICK, *words, "--out", str(folder))
    said = [line for line in err.splitlines() if not line.startswith("tune:")]
    assert (code, out) == (2, "")
    assert len(said) == 1, err
    assert said[0].startswith("trilemma: ")


def refused(folder: Path, room: int | None = None) -> str:
    """What tune says before it has done anything: one sentence."""
    code, out, err = run("tune", *QUICK, "--out", str(folder), room=room, simulated=True)
    assert (code, out) == (2, "")
    (sentence,) = err.splitlines()
    assert sentence.startswith("trilemma: cannot write")
    return sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere, but see below")
def test_a_read_only_folder_is_found_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused(tmp_path / "run")


def test_a_folder_where_nobody_can_write_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    nowhere = (Path("/proc/run"), tmp_path / "file", tmp_path / "file" / "run")  # not even root
    for folder in nowhere:
        code, out, err = here(monkeypatch, capsys, "tune", *QUICK, "--out", str(folder))
        assert (code, out) == (2, "")
        assert err.startswith("trilemma: cannot write")


def test_a_disk_without_any_room_is_found_before_the_work(tmp_path: Path) -> None:
    sentence = refused(tmp_path / "run", room=0)
    assert "make room, and run the same command again" in sentence
    assert "not a journal" not in sentence


@pytest.mark.slow
def test_a_disk_that_fills_up_loses_no_finished_chunk(
    tmp_path: Path, tuned: tuple[Path, str]
) -> None:
    folder = tmp_path / "run"
    words = ["tune", *QUICK, "--out", str(folder)]
    code, out, err = run(*words, room=60_000, simulated=True)
    assert (code, out) == (2, "")
    (said,) = (line for line in err.splitlines() if not line.startswith("tune:"))
    assert "what was finished is kept: make room" in said
    done = committed(folder)
    assert 0 < done < committed(tuned[0])
    assert "stopped: cannot write" in RunLog(folder).lines()[-1]
    assert not (folder / "verdict.json").exists()
    code, _, err = run(*words, simulated=True)
    assert code == 0, err
    assert f"resumed with {done} chunks" in "".join(RunLog(folder).lines())
    assert comparable(folder) == comparable(tuned[0])


def test_a_verdict_that_does_not_fit_is_made_again(
    tmp_path: Path,
    tuned: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tuned[0], folder)
    size = (folder / "verdict.json").stat().st_size
    (folder / "verdict.json").unlink()
    words = ["tune", *QUICK, "--out", str(folder)]
    code, _, err = run(*words, room=size // 2, simulated=True)
    assert code == 2
    assert "cannot write" in err
    assert not list(folder.glob("verdict.json*")), "complete, or not there"
    assert here(monkeypatch, capsys, *words)[0] == 0
    assert comparable(folder) == comparable(tuned[0])


def test_real_attacks_and_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once without simulation: everything that a verdict holds is measured."""
    monkeypatch.undo()
    folder = tmp_path / "real"
    words = ["tune", "--scenario", "tests.cli.own_scenario:shown", "--budget", "0.6"]
    words += [
        *("--families", "randomization", "--basis", "measured", "--candidates", "10"),
        *("--seeds", "2", "--restarts", "1", "--steps", "2", "--strengths", "2"),
        *(*ATTACKS, "--out", str(folder)),
    ]
    code, _, err = here(monkeypatch, capsys, *words)
    assert code == 0, err
    verdict = Verdict.load(folder / "verdict.json")
    assert verdict.chosen == "randomization"
    control: dict[str, Any] = {attack.name: attack.control_recovered for attack in verdict.attacks}
    assert control == {"gaussian-posterior": 16, "analytic": 16}
    assert [item.rounds for item in verdict.rounds[:6]] == [1, 2, 5, 12, 26, 60]
    assert all(0 <= belief.mean <= belief.largest <= 1 for belief in verdict.beliefs)
    assert (folder / "gallery.json").exists()
