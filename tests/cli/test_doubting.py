"""`trilemma attack VERDICT`: fresh games against what a verdict chose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.own_scenario import small
from tests.cli.running import committed, here
from tests.tuning.simulating import simulate

from trilemma.protection.specs import parse_protection
from trilemma.records.records import Records
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune

OWN = "tests.cli.own_scenario"


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch)


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        found = tune(
            small(),
            basis="measured",
            families=("randomization",),
            seeds=2,
            strengths=0,
            restarts=1,
        )
    return replace(found, source={"scenario": f"{OWN}:small", "clients": 2})


@pytest.fixture
def folder(verdict: Verdict, tmp_path: Path) -> Path:
    verdict.save(tmp_path / "verdict.json")
    return tmp_path


Said = tuple[int, str, str]


@pytest.fixture
def attack(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def attack(path: Path, *words: str) -> Said:
        return here(monkeypatch, capsys, "attack", str(path), "--trust", *words)

    return attack


def test_the_scenario_of_somebodys_verdict_is_made_if_named_or_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("attack", str(folder), "--units", "20", "--seed", "3")
    code, _, err = here(monkeypatch, capsys, *words)
    assert code == 2
    assert f"scenario '{OWN}:small' is named by the file" in err
    named = ("--scenario", f"{OWN}:small")
    assert here(monkeypatch, capsys, *words, *named)[0] == 0


def test_a_table_of_every_attack_of_every_rung(attack: Any, folder: Path) -> None:
    code, out, err = attack(folder, "--units", "20", "--seed", "3")
    assert code == 0, err
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    for name in ("dlg", "map", "gaussian-posterior", "exact-posterior"):
        assert name in out
    assert "of 20" in out
    assert "contradict" in out
    assert (folder / "attack-3" / "journal.sqlite").exists(), "beside the verdict"
    assert f"seed 3, run folder {folder / 'attack-3'}" in err


def test_a_contradiction_is_said(
    attack: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch, middle={"gaussian-posterior": 1e6})
    _, out, _ = attack(folder, "--seed", "3")
    assert "The claim is contradicted: gaussian-posterior" in " ".join(out.split())


def test_json_and_resuming(attack: Any, folder: Path, verdict: Verdict) -> None:
    words = ("--units", "20", "--seed", "3", "--json")
    code, out, _ = attack(folder / "verdict.json", *words)
    found = json.loads(out)
    assert code == 0
    assert (found["seed"], found["headline"]) == (3, verdict.headline)
    assert {item["units"] for item in found["attacks"]} == {20}
    done = committed(folder / "attack-3")
    assert json.loads(attack(folder, *words)[1]) == found
    assert committed(folder / "attack-3") == done, "nothing is played again"


def test_games_are_new_unless_a_seed_is_given(attack: Any, folder: Path) -> None:
    for _ in range(2):
        assert attack(folder, "--units", "4")[0] == 0
    assert len(list(folder.glob("attack-*"))) == 2


def test_other_public_records_and_another_scenario(
    attack: Any, folder: Path, verdict: Verdict
) -> None:
    words = ("--units", "4", "--seed", "1")
    code, _, err = attack(folder, *words, "--public", "tests.cli.test_doubting:owned")
    assert code == 0, err
    code, _, err = attack(folder, "--seed", "2", "--scenario", f"{OWN}:none")
    assert code == 2
    assert "has no object 'none'" in err
    replace(verdict, source={}).save(folder / "verdict.json")
    code, _, err = attack(folder, "--units", "4", "--seed", "2")
    assert code == 2
    assert "name it with --scenario module:function" in err
    code, _, err = attack(folder, "--units", "4", "--seed", "2", "--scenario", f"{OWN}:small")
    assert code == 0, err


def owned() -> Records:
    return small().records[0]


def test_other_settings_are_not_mixed_in(attack: Any, folder: Path) -> None:
    assert attack(folder, "--units", "4", "--seed", "1")[0] == 0
    code, _, err = attack(folder, "--units", "5", "--seed", "1")
    assert code == 2
    assert "units 4 there, 5 here" in err


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        ({"protection": None}, (), "chose no protection"),
        ({"protection": parse_protection("paillier:mode=blind")}, (), "rests on its key"),
        ({}, ("--units", "0"), "units (games to play) must be at least 1, got 0"),
        ({}, ("--workers", "0"), "workers must be at least 1, got 0"),
        (
            {},
            ("--public", "tests.cli.test_doubting:nobody"),
            "has no object 'nobody'",
        ),
        ({}, ("--seed", "-1"), "seed must be"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    attack: Any,
    folder: Path,
    verdict: Verdict,
    change: dict[str, Any],
    words: tuple[str, ...],
    sentence: str,
) -> None:
    replace(verdict, **change).save(folder / "verdict.json")
    code, out, err = attack(folder, *words)
    assert (code, out) == (2, "")
    (said,) = err.splitlines()
    assert sentence in said
    assert not list(folder.glob("attack-*")), "nothing is left behind"


def test_a_folder_without_a_verdict(attack: Any, tmp_path: Path) -> None:
    code, _, err = attack(tmp_path)
    assert code == 2
    assert "cannot read the verdict" in err
