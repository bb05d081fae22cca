"""What `trilemma new` writes runs at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest
from tests.cli.running import run

from trilemma.cli.configuration import read_settings
from trilemma.cli.scaffold import Kind, write_scaffold
from trilemma.errors import InvalidInput
from trilemma.naming import load_object
from trilemma.settings import Federated
from trilemma.tuning.request import Request


@pytest.fixture(params=get_args(Kind))
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / str(request.param)
    write_scaffold(folder, request.param)
    # One name for each kind: a module is imported once in a process.
    (folder / f"my_{request.param}.py").write_text((folder / "my_federation.py").read_text())
    monkeypatch.chdir(folder)
    return folder


def test_the_scenario_is_a_federation(made: Path) -> None:
    scenario = load_object("scenario", f"my_{made.name}:make_scenario")(clients=3)
    assert len(scenario.records) == 3
    assert scenario.name.startswith("my-")
    assert scenario.show_records == (made.name == "image"), "only what is public is shown"


def test_the_settings_are_read(made: Path) -> None:
    federated, request, _ = read_settings(None, {}, Federated, Request)
    assert federated.scenario == "my_federation:make_scenario"
    assert (request.budget, request.knows) == (0.3, "candidates")
    assert tomllib.loads((made / "trilemma.toml").read_text())


def test_nothing_is_overwritten(made: Path) -> None:
    kind: Kind = "table"
    with pytest.raises(InvalidInput, match="is there already"):
        write_scaffold(made, kind)
    (made / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write into"):
        write_scaffold(made / "file" / "deeper", kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_new_federation_gets_a_verdict(kind: Kind, tmp_path: Path) -> None:
    write_scaffold(tmp_path, kind)
    words = ("tune", str(tmp_path / "trilemma.toml"), "--quick", "--clients", "3")
    less = ("--attacks", "gaussian-posterior", "--families", "randomization")
    code, out, err = run(*words, *less, "--out", str(tmp_path / "run"), cwd=tmp_path)
    assert code == 0, err
    assert "sees the round" in out
    assert "Proved." in out
