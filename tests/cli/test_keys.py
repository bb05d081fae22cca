"""`trilemma keys new`: the file is private, complete, and nothing of the key is printed."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trilemma.cli.keys import app
from trilemma.crypto.keyfiles import load_private, load_public
from trilemma.crypto.signatures import load_signer, load_signing_key
from trilemma.entropy import System
from trilemma.errors import InvalidInput, WeakKey


def test_a_new_key_is_private_and_never_shown(tmp_path: Path) -> None:
    path, public = tmp_path / "federation.key", tmp_path / "federation.pub"
    done = CliRunner().invoke(app, ["new", str(path), "--bits", "2048", "--public", str(public)])
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = load_private(path)
    assert load_public(public) == key.public
    ciphertext = key.public.encrypt([5], System())
    assert key.decrypt(ciphertext) == [5]
    assert str(path) in done.output.replace("\n", "")
    assert max(len(run) for run in re.findall(r"[0-9a-fA-Fx]+", done.output)) < 30
    for number in key.reveal():
        assert hex(number)[2:12] not in done.output


def test_a_key_that_signs_has_its_public_part_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "signer.pem"
    done = CliRunner().invoke(app, ["new", str(path), "--sign"])
    assert done.exit_code == 0, done.output
    assert {item.name for item in tmp_path.iterdir()} == {"signer.pem", "signer.pub"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = load_signing_key(path)
    assert load_signer(tmp_path / "signer.pub") == key.public_key()
    assert path.read_text().splitlines()[1] not in done.output
    for words in (["signer.pub", "--sign"], ["a.pem", "--sign", "--public", "a.pem"]):
        done = CliRunner().invoke(app, ["new", *words])
        assert "cannot hold both keys" in str(done.exception)
    done = CliRunner().invoke(app, ["new", str(tmp_path / "b"), "--sign", "--bits", "2048"])
    assert "has no --bits" in str(done.exception)


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "old.key"
    path.write_text("precious")
    done = CliRunner().invoke(app, ["new", str(path), "--bits", "2048"])
    assert isinstance(done.exception, InvalidInput)
    assert path.read_text() == "precious"
    public = tmp_path / "new.pub"
    public.write_text("precious")
    done = CliRunner().invoke(app, ["new", str(tmp_path / "new.key"), "--public", str(public)])
    assert isinstance(done.exception, InvalidInput)
    assert not (tmp_path / "new.key").exists(), "no half-made pair is left"


@pytest.mark.parametrize("bits", ["1024", "0"])
def test_short_keys_are_refused(bits: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["new", str(tmp_path / "weak.key"), "--bits", bits])
    assert isinstance(done.exception, WeakKey)
    assert not list(tmp_path.iterdir())


def test_the_command_imports_nothing_heavy_until_it_runs() -> None:
    code = (
        "import sys, trilemma.cli.keys\nprint([m for m in ('torch', 'gmpy2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("public", ["k", "no folder/p", "x" * 300])
def test_a_refused_command_leaves_the_name_to_the_corrected_one(
    tmp_path: Path, public: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["new", "k", "--bits", "2048"]
    done = CliRunner().invoke(app, [*words, "--public", public])
    assert isinstance(done.exception, InvalidInput)
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(app, [*words, "--public", "\x1b[31mp"]).stdout.count("\x1b") == 0
