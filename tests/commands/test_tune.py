"""`trilemma tune`: settings, bad input, a verdict that can be deployed, resuming after kill -9."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from trilemma.cli import app
from trilemma.commands.settings import Settings, command_line, read_settings
from trilemma.errors import InvalidInput, UnknownName
from trilemma.protections.protection import Protection
from trilemma.tuning.results.verdict import Verdict, verdict_schema
from trilemma.work.journal import list_runs
from trilemma.work.log import RunLog

ROOT = Path(__file__).parents[2]
# Ctrl-C must work even where the tests themselves run in the background, deaf to it.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from trilemma.cli import main
main()
"""
QUICK = [
    *("--scenario", "tests.commands.own_scenario:shown", "--budget", "0.6", "--strengths", "2"),
    *("--restarts", "1", "--rounds", "5", "--seeds", "2", "--efficiency-weight", "0"),
    *("--mechanisms", "randomization,secret-sharing"),
]


# No file may grow beyond this, as on a disk that is full; it binds root too.
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
"""


def start(*words: str, cwd: Path = ROOT, room: int | None = None) -> subprocess.Popen[str]:
    limit = "" if room is None else LIMITED.format(bytes=room)
    return subprocess.Popen(
        [sys.executable, "-c", limit + MAIN, *words],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(*words: str, cwd: Path = ROOT, room: int | None = None) -> tuple[int, str, str]:
    process = start(*words, cwd=cwd, room=room)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "calm"
    code, out, err = run("tune", *QUICK, "--out", str(folder))
    assert code == 0, err
    return folder, out


def test_the_text_says_what_a_person_needs(tuned: tuple[Path, str]) -> None:
    folder, out = tuned
    assert max(len(line.rstrip()) for line in out.splitlines()[:-2]) <= 80
    places = [out.index(word) for word in ("Not covered", "Verdict", "All candidates")]
    assert places == sorted(places), "the limits come first"
    for word in ("use", "leaks", "within the budget 0.6", "costs", "adversary", "attackers"):
        assert word in out
    assert "a curious client:" in out
    assert str(folder / "verdict.json") in out
    assert out.rstrip().endswith(str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_the_verdict_is_valid_and_gives_the_protection_back(tuned: tuple[Path, str]) -> None:
    path = tuned[0] / "verdict.json"
    document = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))
    jsonschema.validate(document, verdict_schema())
    assert next(iter(document)) == "schema_version"
    assert document["local_training"]["algorithm"] == "fedsgd"
    verdict = Verdict.load(path)
    assert isinstance(verdict.protection, Protection)
    assert verdict.protection.describe() == document["protection"]
    assert verdict.as_json() == document
    chosen = verdict.choice
    assert chosen is not None
    assert chosen.rank == 1
    assert chosen.leakage is not None
    assert chosen.leakage.value <= verdict.problem.budget


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    assert published == verdict_schema(), "write verdict_schema() to docs/verdict.schema.json"


def test_no_record_is_in_the_verdict(tuned: tuple[Path, str]) -> None:
    """Every long list of numbers would be one, though this scenario shows records."""

    def longest(value: Any) -> int:
        if isinstance(value, dict):
            return max(map(longest, value.values()), default=0)
        if isinstance(value, list):
            numbers = all(isinstance(each, int | float) for each in value)
            return len(value) if numbers else max(map(longest, value), default=0)
        return 0

    assert longest(json.loads((tuned[0] / "verdict.json").read_text())) <= 5


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "[1, 2]", "no verdict of version 2"),
        (lambda text: text.replace('"schema_version": 2', '"schema_version": 7'), "version 2"),
        (
            lambda text: text.replace('"schema_version": 2', '"schema_version": 1'),
            "of version 1, .* run the same trilemma tune command again with --out ",
        ),
        (lambda text: text.replace('"adversary": "server"', '"adversary": "me"'), "adversary"),
        (lambda text: text.replace('"limits"', '"limit"'), "limit"),
    ],
)
def test_a_truncated_or_foreign_file_gets_one_sentence(
    tuned: tuple[Path, str], tmp_path: Path, spoil: Any, word: str
) -> None:
    path = tmp_path / "verdict.json"
    path.write_text(spoil((tuned[0] / "verdict.json").read_text()))
    with pytest.raises(InvalidInput, match=word) as error:
        Verdict.load(path)
    assert "\n" not in str(error.value)
    with pytest.raises(InvalidInput, match="cannot read"):
        Verdict.load(tmp_path / "none.json")


def test_runs_are_listed(tuned: tuple[Path, str]) -> None:
    (listed,) = list_runs(tuned[0].parent)
    assert (listed.command, listed.in_use, listed.results) == (
        "tune",
        False,
        ("gallery.json", "verdict.json"),
    )
    code, out, _ = run("runs", str(tuned[0].parent))
    assert code == 0
    assert "finished" in out


def test_the_log_names_what_was_finished(tuned: tuple[Path, str]) -> None:
    events = [line.partition(" ")[2] for line in RunLog(tuned[0]).lines()]
    assert "tune started" in events[0]
    assert events[-1] == "finished"
    for name in ("control", "randomization", "secret-sharing", "promises"):
        (line,) = (each for each in events if each.startswith(f"{name} finished on "))
        assert int(line.split()[-2]) > 0


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text('budget = 0.5\nmechanisms = ["compression"]\nutility_weight = [1.0, 2.0]\n')
    found = read_settings(path, {"budget": 0.2, "seed": None})
    assert (found.budget, found.mechanisms, found.seed) == (0.2, ("compression",), 0)
    assert found.utility_weight == (1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("budgett = 1", UnknownName, r"'budgett' \(did you mean 'budget'\?\)"),
        ("budget = 'much'", InvalidInput, "budget"),
        ("adversary = 'moon'", InvalidInput, "adversary"),
        ("budget = ", InvalidInput, "not valid TOML"),
    ],
)
def test_bad_settings(tmp_path: Path, text: str, kind: type[Exception], sentence: str) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text(text)
    with pytest.raises(kind, match=sentence):
        read_settings(path, {})
    with pytest.raises(InvalidInput, match="cannot read"):
        read_settings(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "1.5"],
        ["--confidence", "1"],
        ["--mechanisms", "noise"],
        ["--attacks", "dgl"],
        ["--seeds", "1"],
        ["--scenario", "nothing"],
        ["--bandwidth", "-1"],
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], tmp_path: Path) -> None:
    code, out, err = run("tune", *QUICK, *words, "--out", str(tmp_path / "run"))
    said = [line for line in err.splitlines() if not line.startswith("tune:")]
    assert (code, out) == (2, "")
    assert len(said) == 1, err
    assert said[0].startswith("trilemma: ")


def refused(folder: Path, room: int | None = None) -> str:
    """What tune says before it has done anything: one sentence."""
    code, out, err = run("tune", *QUICK, "--out", str(folder), room=room)
    assert (code, out) == (2, "")
    (sentence,) = err.splitlines()
    assert sentence.startswith("trilemma: cannot write")
    return sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere, but see below")
def test_a_read_only_folder_is_found_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused(tmp_path / "run")


def test_a_folder_where_nobody_can_write_is_found_before_the_work(tmp_path: Path) -> None:
    refused(Path("/proc/run"))  # not even root
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file")
    refused(tmp_path / "file" / "run")


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
    code, out, err = run(*words, room=300_000)
    assert (code, out) == (2, "")
    (said,) = (line for line in err.splitlines() if not line.startswith("tune:"))
    assert "what was finished is kept: make room" in said
    done = committed(folder)
    assert 0 < done < committed(tuned[0])
    assert "stopped: cannot write" in RunLog(folder).lines()[-1]
    assert not (folder / "verdict.json").exists()
    code, _, err = run(*words)
    assert code == 0, err
    assert f"resumed with {done} chunks" in "".join(RunLog(folder).lines())
    assert comparable(folder) == comparable(tuned[0])


def test_a_verdict_that_does_not_fit_is_made_again(
    tmp_path: Path, tuned: tuple[Path, str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tuned[0], folder)
    size = (folder / "verdict.json").stat().st_size
    (folder / "verdict.json").unlink()
    words = ["tune", *QUICK, "--out", str(folder)]
    code, _, err = run(*words, room=size // 2)
    assert code == 2
    assert "cannot write" in err
    assert not list(folder.glob("verdict.json*")), "complete, or not there"
    assert run(*words)[0] == 0
    assert comparable(folder) == comparable(tuned[0])


def comparable(folder: Path) -> dict[str, Any]:
    """The verdict without what a clock or the folder's own key decides."""
    document = json.loads((folder / "verdict.json").read_text())
    document["gallery"] = json.loads((folder / "gallery.json").read_text())
    document["federation"].pop("data_hash")
    for point in document["curves"]:
        point.pop("seconds")
        point.pop("efficiency_reduction")
    for candidate in document["candidates"]:
        costs = candidate["costs"]
        if costs is not None:
            costs.pop("efficiency_reduction")
            for spent in (costs["unprotected"], costs["protected"]):
                for part in ("train", "protect", "combine", "reveal"):
                    spent.pop(part)
    return copy.deepcopy(document)


@pytest.mark.parametrize(
    "chosen",
    [
        Settings(),
        Settings(clip="utility"),
        Settings(
            scenario="my module:make", data="a folder/it's", clients=3, batch=2, alpha=0.5,
            device="cpu", budget=0.25, confidence=0.9, utility_weight=(1.0, 2.5),
            efficiency_weight=0.0, max_utility_loss=-0.01, max_cost=3.0, bandwidth=1e7,
            mechanisms=("paillier", "randomization+secret-sharing"), attacks=("dlg",),
            adversary="client", basis="all", success="psnr:25", restarts=2, rounds=10, seeds=3,
            certified_rounds=4, kappa=0.05, clip=1.5, population=100, strengths=0, seed=7,
        ),
    ],
)  # fmt: skip
def test_the_command_that_repeats_a_verdict_gives_the_same_settings(chosen: Settings) -> None:
    line = command_line("tune", dict(chosen), dict(Settings()))
    program, command, *words = shlex.split(line)
    assert (program, command) == ("trilemma", "tune")
    assert parsed(words) == chosen


def test_the_verdict_names_the_command_that_repeats_it(tuned: tuple[Path, str]) -> None:
    program, command, *words = shlex.split(Verdict.load(tuned[0] / "verdict.json").reproduce)
    assert (program, command) == ("trilemma", "tune")
    assert parsed(words) == parsed(list(QUICK))


def parsed(words: list[str]) -> Settings:
    """The settings that `trilemma tune` with these words runs."""
    command = typer.main.get_command(app).commands["tune"]  # type: ignore[attr-defined]
    return read_settings(None, command.make_context("tune", words).params)


def committed(folder: Path) -> int:
    journal = folder / "journal.sqlite"
    if not journal.exists():
        return 0
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as reader:
        try:
            return int(reader.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])
        except sqlite3.OperationalError:  # killed before the tables were made
            return 0


def wait_for_chunks(
    process: subprocess.Popen[str], folder: Path, goal: int, seconds: float = math.inf
) -> None:
    """Until the journal holds so many chunks, the seconds are over, or the process has ended."""
    until = time.monotonic() + seconds
    while committed(folder) < goal and time.monotonic() < until and process.poll() is None:
        time.sleep(0.002)


def kill_and_resume(tmp_path: Path, calm: Path, kills: int, workers: int) -> None:
    """Kill where the journal has come so far, whatever the speed of this machine.

    The first kill comes as soon as there is a folder; the others are spread over all chunks, and
    each waits for a commit of its own process, and at most for one more.
    """
    draw, rough = random.Random(kills), tmp_path / "rough"
    words = ["tune", *QUICK, "--out", str(rough), "--workers", str(workers)]
    total, done = committed(calm), 0
    assert total > 3 * kills, "give the run more chunks, so that each kill finds work"
    for kill in range(kills):
        process = start(*words)
        if kill == 0:
            while not (rough / "lock").exists() and process.poll() is None:
                time.sleep(0.002)
        else:
            share = (kill + draw.random()) / kills
            wait_for_chunks(process, rough, max(done + 1, round((total - kills) * share)))
            wait_for_chunks(process, rough, committed(rough) + 1, draw.uniform(0, 0.2))
        assert not (rough / "verdict.json").exists(), "the run ended before all kills"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "the process had ended by itself"
        assert committed(rough) >= done, "a committed chunk was lost"
        done = committed(rough)
    assert not (rough / "verdict.json").exists()
    assert done > total / 2, "kills are spread over the run"
    code, _, err = run(*words)
    assert code == 0, err
    assert comparable(rough) == comparable(calm)


def test_two_kills(tmp_path: Path, tuned: tuple[Path, str]) -> None:
    kill_and_resume(tmp_path, tuned[0], kills=2, workers=1)


@pytest.mark.slow
def test_twenty_kills_with_two_workers(tmp_path: Path, tuned: tuple[Path, str]) -> None:
    kill_and_resume(tmp_path, tuned[0], kills=20, workers=2)


def test_ctrl_c_leaves_one_sentence_and_a_run_to_go_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start("tune", *QUICK, "--out", str(folder), "--workers", "2")
    while committed(folder) < 2 and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to the whole group
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "run the same command again to go on" in err
    assert RunLog(folder).lines()[-1].endswith("interrupted")


def test_another_run_is_not_mixed_in(tuned: tuple[Path, str]) -> None:
    code, _, err = run("tune", *QUICK, "--seed", "1", "--out", str(tuned[0]))
    assert code == 2
    assert "seed 0 there, 1 here" in err


def test_every_flag_is_a_setting_and_every_setting_a_flag() -> None:
    from typing import get_type_hints

    from trilemma.commands.tune import tune

    others = {"return", "context", "settings", "workers", "out", "fresh", "as_json"}
    assert set(get_type_hints(tune)) - others == set(Settings.model_fields)
