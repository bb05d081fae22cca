"""Whole audits of a small federation, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.cli.own_scenario import small
from tests.cli.running import here

import trilemma
from trilemma.reporting.words.audit_text import answer, show_audit
from trilemma.tuning.audit.audit_result import Audit

NAME = "tests.cli.own_scenario:small"
FEW = {"units": 16, "seeds": 2, "rounds": 30}


@pytest.fixture(scope="module")
def bare() -> Audit:
    return trilemma.audit(small(), "none", quiet=True, **FEW)  # type: ignore[arg-type]


def test_without_protection_attackers_guess_right_and_nothing_is_proved(bare: Audit) -> None:
    by_knowledge = {known.knows: known.attempts for known in bare.known}
    assert list(by_knowledge) == ["nothing", "public", "candidates", "rest"]
    best = by_knowledge["rest"][0]
    assert best.recovered / best.units > 0.2, "blind guessing: 1 of 21; a third are used in 30"
    assert not bare.keeps
    assert bare.guaranteed == ()
    assert bare.nearest is None
    assert "no parameter" in bare.no_nearest.lower()
    assert bare.accuracy.lost is not None
    assert bare.accuracy.lost.value == 0.0, "paired with itself"
    assert bare.reproduce.startswith("trilemma.audit(scenario, 'none'")


def test_the_published_schema_is_that_of_the_code(bare: Audit, tmp_path: Path) -> None:
    docs = Path(__file__).parents[3] / "docs"
    assert json.loads((docs / "audit.schema.json").read_text()) == Audit.schema()
    bare.save(tmp_path / "audit.json")
    document = json.loads((tmp_path / "audit.json").read_text())
    jsonschema.validate(document, Audit.schema())
    assert Audit.load(tmp_path) == bare


def test_what_is_printed_fits_a_terminal(bare: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    show_audit(bare)
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    assert answer(bare) in " ".join(said.split())


def test_enough_noise_keeps_the_budget_by_proof_and_the_command_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enough = "randomization:variance=100,clip=0.5"
    words = ["--scenario", NAME, "--units", "16", "--seeds", "2", "--rounds", "30"]
    folder = tmp_path / "run"
    code, out, err = here(
        monkeypatch, capsys, "audit", enough, *words, "--json", "--out", str(folder)
    )
    assert code == 0, err
    document = json.loads(out)
    assert (document["keeps"], document["basis"]) == (True, "proved")
    assert document["paste"] == enough
    found = trilemma.audit(NAME, enough, quiet=True, out=folder, **FEW)  # type: ignore[arg-type]
    assert found.as_json() == document, "the same run, from Python"


@pytest.mark.slow
def test_too_little_noise_ends_with_1_and_a_setting_that_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = "flower.LocalDpMod:clipping_norm=1,sensitivity=1e-4,epsilon=10,delta=1e-5"
    words = ["--scenario", NAME, "--units", "16", "--seeds", "2", "--rounds", "30"]
    out_of = tmp_path / "run"
    code, _, err = here(
        monkeypatch, capsys, "audit", setting, *words, "--json", "--out", str(out_of)
    )
    assert code == 1, err
    found = Audit.load(out_of)
    assert found.nearest is not None
    assert found.nearest.basis == "proved"
    assert found.paste.startswith("LocalDpMod(clipping_norm=1, sensitivity=")
    again = trilemma.audit(NAME, found.nearest.setting, quiet=True, **FEW)  # type: ignore[arg-type]
    assert again.keeps
    assert again.basis == "proved"
    assert found.best is not None
    assert found.best.success <= found.largest_success_rate


@pytest.mark.parametrize(
    "words",
    [
        ("audit",),
        ("audit", "nosuch.Filter"),
        ("audit", "none", "--budget", "2"),
        ("audit", "none", "--units", "0"),
        ("audit", "none", "--budget", "0.2", "--at-most", "1 in 4"),
        ("audit", "none", "--scenario", "nosuch"),
        ("audit", "nvflare.ExcludeVars:exclude_vars=.", "--scenario", NAME),
    ],
)
def test_a_mistake_ends_with_2_and_a_sentence(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = here(monkeypatch, capsys, *words)
    assert code == 2
    assert out == ""
    assert err.splitlines()[-1].startswith("trilemma: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        "nvflare.PercentilePrivacy",
        "nvflare.SVTPrivacy",
        "flower.adaptiveclipping_mod",
        "flower.DifferentialPrivacyServerSideFixedClipping:noise_multiplier=1,clipping_norm=1",
        "flower.LocalDpMod:clipping_norm=1,sensitivity=1,epsilon=1,delta=1e-5+flower.SecAggPlus",
        "opacus.PrivacyEngine:noise_multiplier=1,max_grad_norm=1",
        "quantisation:bits=4,reach=1",
        "top-k:keep=0.1",
    ],
)
def test_each_kind_of_setting_is_audited(setting: str) -> None:
    found = trilemma.audit(small(), setting, quiet=True, units=16, seeds=2, rounds=20)
    assert found.setting
    assert any(known.attempts for known in found.known)
