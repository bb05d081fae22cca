"""`trilemma evidence` and `trilemma verify`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.running import here
from tests.cli.test_report import cli
from tests.reporting import examples

import trilemma
from trilemma.crypto.signatures import new_signing_key
from trilemma.execution.run_files import write_json


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    examples.verdict().save("run/verdict.json")
    new_signing_key(Path("signer.pem"), Path("signer.pub"))
    new_signing_key(Path("other.pem"), Path("other.pub"))
    return tmp_path / "run"


def test_a_pack_is_made_and_verified(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("evidence", "run", "--out", "e.zip", "--sign", "signer.pem", "--name", "A. Tester")
    assert cli(*words, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "evidence: e.zip: README.txt, manifest.json" in said
    assert "There is no Chromium here, so that the pack has no PDF; it is complete." in said
    assert "signed by A. Tester" in said
    assert cli("verify", "e.zip", "--signer", "signer.pub", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "e.zip: verified; signed by" in said
    assert "--signer" not in said
    assert cli("verify", "e.zip", monkeypatch=monkeypatch) == 0
    assert "--signer compares it with one that you know" in capsys.readouterr().out
    assert cli("verify", "e.zip", "--signer", "other.pub", monkeypatch=monkeypatch) == 1
    assert "does not verify" in capsys.readouterr().out


def test_beside_the_run_and_not_signed(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = here(monkeypatch, capsys, "evidence", "run/verdict.json", "--json")
    assert code == 0
    made = json.loads(out)
    assert made["path"] == "run/evidence"
    assert made["signer"] is None
    assert "report.pdf" not in made["files"]
    code, out, _ = here(monkeypatch, capsys, "verify", "run/evidence", "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["state"], found["signer"]) == ("not signed", None)
    assert cli("verify", "run/evidence", monkeypatch=monkeypatch) == 1
    said = capsys.readouterr().out
    assert "not signed" in said
    assert "ok" not in said.split()
    assert "verified" not in said


def test_python_does_the_same(run: Path) -> None:
    made = trilemma.evidence("run", out="e.zip", sign="signer.pem", name="A. Tester")
    assert made.path == Path("e.zip")
    assert trilemma.verify("e.zip", signer="signer.pub").state == "verified"
    assert callable(trilemma.evidence), "and no package takes its name"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("evidence", "nowhere"), "cannot read"),
        (("evidence", "run", "--sign", "signer.pub"), "no private Ed25519 key"),
        (("evidence", "run", "--name", "A. Tester"), "together with --sign"),
        (("evidence", "run", "--out", "run"), "exists already"),
        (("verify", "nowhere.zip"), "cannot be read: No such file"),
        (("verify", "run", "--signer", "signer.pem"), "no public Ed25519 key"),
    ],
)
def test_mistakes_end_in_a_sentence(
    run: Path,
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cli(*words, monkeypatch=monkeypatch) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert heard.err.count("\n") == 1
    assert heard.out == ""


def test_a_verdict_imports_nothing_unless_it_is_trusted(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.parent / "evil.py").write_text("raise SystemExit(7)\n")
    monkeypatch.syspath_prepend(str(run.parent))
    document = json.loads((run / "verdict.json").read_text())
    write_json(run / "verdict.json", {**document, "protection": "evil:Mine"})
    assert cli("evidence", "run", monkeypatch=monkeypatch) == 2
    assert "evil" in capsys.readouterr().err
    assert not (run / "evidence").exists()


def test_what_a_pack_says_cannot_colour_a_terminal(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("evidence", "run", monkeypatch=monkeypatch) == 0
    (run / "evidence" / "\x1b[31mred").touch()
    capsys.readouterr()
    assert cli("verify", "run/evidence", monkeypatch=monkeypatch) == 1
    assert "\x1b" not in capsys.readouterr().out
