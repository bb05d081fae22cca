"""A run goes on only with what it began with: `estimate`, `attack`, `tune` and `pareto`."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest
from tests.cli.running import without_first_lines

from trilemma.cli.main import main
from trilemma.execution.journal import Run

MODULE = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.beliefs.recovery import Criterion
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining

SCALE = 1.0


def data(size, seed):
    draw = torch.Generator().manual_seed(seed)
    records = torch.rand(size, 6, generator=draw)
    return TensorDataset(records, torch.randint(0, 3, (size,), generator=draw))


def loss(outputs, labels):
    return SCALE * cross_entropy(outputs, labels)


def draw(model):
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)


def make():
    return Scenario(
        nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 3)),
        loss,
        [data(20, client) for client in range(2)],
        data(10, 99),
        LocalTraining(batch=1, lr=0.1),
        initialise=draw,
        criterion=Criterion("psnr", 20.0),
        server_lr=0.1,
    )
"""
EDITS = {
    "model": ("nn.Sigmoid()", "nn.Tanh()", "the scenario's model "),
    "loss": ("SCALE * cross", "SCALE / 2 * cross", "the scenario's loss "),
    "a constant": ("SCALE = 1.0", "SCALE = 2.0", "the scenario's loss "),
    "rate": ("lr=0.1)", "lr=0.2)", "lr=0.1"),
    "server's rate": ("server_lr=0.1", "server_lr=0.2", 'server_lr "0.1" there, "0.2" here'),
    "weights": ("-0.5, 0.5", "-0.4, 0.4", "the scenario's initialise "),
    "criterion": ("20.0", "25.0", "psnr"),
    "data": ("data(20, client)", "data(20, client + 5)", "the scenario's data "),
    "test": ("data(10, 99)", "data(10, 98)", "the scenario's data "),
}
OWN = ("--scenario", "my_federation:make", "--restarts", "1", "--out", "run")
COMMANDS = {
    "estimate": ("estimate", *OWN[:2], *OWN[-2:], "--models", "4", "--attack", "analytic"),
    "attack": ("attack", *OWN, "--units", "4", "--attack", "analytic"),
    "tune": ("tune", *OWN, "--rounds", "2", "--seeds", "2", "--attacks", "analytic"),
    "pareto": ("pareto", *OWN, "--rounds", "2", "--seeds", "2", "--attacks", "analytic"),
}


def trilemma(words: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command in this folder with the user's module as it is now."""
    Path("my_federation.py").write_text(text)
    sys.modules.pop("my_federation", None)
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two edits in one second
    monkeypatch.setattr(sys, "argv", ["trilemma", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each command that was interrupted after its first chunk."""
    parent = tmp_path_factory.mktemp("begun")
    commit = Run.commit

    def once(self: Run, key: str, payload: bytes) -> None:
        commit(self, key, payload)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "commit", once)
        for command, words in COMMANDS.items():
            (parent / command).mkdir()
            patch.chdir(parent / command)
            assert trilemma(words, MODULE, patch) == 130
    return {command: parent / command / "run" for command in COMMANDS}


# attack measures as estimate does, and pareto as tune: they need not see every edit.
PAIRS = [
    *((command, edit) for command in ("estimate", "tune") for edit in EDITS),
    *((command, edit) for command in ("attack", "pareto") for edit in ("model", "data")),
]


@pytest.mark.parametrize(("command", "edit"), PAIRS)
def test_a_run_is_not_resumed_with_anything_changed(
    command: str,
    edit: str,
    begun: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new, words = EDITS[edit]
    assert MODULE.count(old) == 1
    shutil.copytree(begun[command], tmp_path / "run")
    before = (tmp_path / "run" / "journal.sqlite").read_bytes()
    monkeypatch.chdir(tmp_path)
    assert trilemma(COMMANDS[command], MODULE.replace(old, new), monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (sentence,) = without_first_lines(err).splitlines()
    assert sentence.startswith("trilemma: run holds a run with other settings (")
    assert sentence.endswith(
        "set it back to resume, choose another folder, or start over with --fresh."
    )
    assert words in sentence
    assert (tmp_path / "run" / "journal.sqlite").read_bytes() == before, "nothing is lost"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_not_resumed_by_other_code(
    command: str,
    begun: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(begun[command], tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trilemma.game.scenario_identity.code_hash", lambda: "edited")
    assert trilemma(COMMANDS[command], MODULE, monkeypatch) == 2
    assert "the scenario's code " in capsys.readouterr().err


OWN_CODE = f"""{MODULE}

from dataclasses import dataclass

from tests.protection.foreign import Shift
from trilemma.attacks import Analytic


@dataclass(frozen=True)
class Mine(Analytic):
    effort: int = 3

    @property
    def name(self):
        return "mine"


class Noise(Shift):
    name = "noise"

    def reach(self, largest):
        return largest + 8 * self.by
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("effort: int = 3", "effort: int = 4", "the code of my_federation:Mine "),
        ("+ 8 * self.by", "+ 9 * self.by", "the code of my_federation:Noise "),
    ],
)
def test_a_run_is_not_resumed_by_other_code_of_the_users_own(
    old: str,
    new: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(self: Run, key: str, payload: bytes) -> None:
        commit(self, key, payload)
        raise KeyboardInterrupt

    commit, asked = Run.commit, ("--families", "my_federation:Noise")
    line = (*COMMANDS["tune"], *asked, "--attacks", "my_federation:Mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Run, "commit", stop)
    assert trilemma(line, OWN_CODE, monkeypatch) == 130
    assert OWN_CODE.count(old) == 1
    assert trilemma(line, OWN_CODE.replace(old, new), monkeypatch) == 2
    assert words in capsys.readouterr().err
    remark = OWN_CODE.replace(old, f"{old}  # as ever")
    assert trilemma(line, remark, monkeypatch) == 130, "a remark changes nothing"


@pytest.mark.parametrize("command", ["estimate", "attack"])
def test_what_changes_no_number_does_not_stop_a_run(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trilemma(COMMANDS[command], MODULE, monkeypatch) == 0
    found = (tmp_path / "run" / f"{command}.json").read_bytes()
    edited = MODULE.replace("SCALE = 1.0", "# An odd name.\nSCALE = 1.0  # and a remark")
    assert trilemma((*COMMANDS[command], "--workers", "2"), edited, monkeypatch) == 0
    assert (tmp_path / "run" / f"{command}.json").read_bytes() == found
    assert "updates/s" not in capsys.readouterr().err.split("run folder")[1]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("estimate", ("--workers", "0")),
        ("estimate", ("--scenario", "my_federation:none")),
        ("attack", ("--workers", "0")),
        ("tune", ("--families", "noise")),
        ("tune", ("--scenario", "my_federation:none")),
        ("tune", ("--workers", "0")),
        ("pareto", ("--attacks", "dgl")),
        ("pareto", ("--storage", "nonsense")),
    ],
)
def test_a_failed_command_leaves_nothing_behind(
    command: str,
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trilemma((*COMMANDS[command], *words), MODULE, monkeypatch) == 2
    assert len(without_first_lines(capsys.readouterr().err).splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["my_federation.py"]


@pytest.mark.parametrize("name", ["100% {a}?b #1", "?mode=ro"])
def test_a_run_may_be_called_anything(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pareto, as it opens two databases there; it is stopped when it has opened both."""
    monkeypatch.chdir(tmp_path)

    def stop(self: Run, key: str, payload: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "commit", stop)
    assert trilemma((*COMMANDS["pareto"], "--out", name), MODULE, monkeypatch) == 130
    assert [path.name for path in (tmp_path / name).iterdir()] == ["study.sqlite"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "my_federation.py"])


def test_a_path_and_a_name_that_are_no_text_are_printed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = MODULE.replace("server_lr=0.1,", "server_lr=0.1, name='\\x1b[2Jmine',")
    words = (*COMMANDS["attack"], "--out", "run\udcff\x1b[31m")
    assert trilemma(words, named, monkeypatch) == 0
    out, err = capfdbinary.readouterr()
    assert b"\x1b" not in out + err
    assert rb"\x1b[2Jmine" in out
    assert rb"run\udcff\x1b[31m" in err
