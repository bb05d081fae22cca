"""What a pack holds, what it never holds, and which runs have none."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.evidence_pack.packs import NO_PDF, packed
from tests.reporting import examples

from trilemma.deployment.nodes.verdict_terms import claimed_terms
from trilemma.deployment.policy import Policy
from trilemma.errors import InvalidInput, PolicyRefused
from trilemma.evidence_pack.printing import print_page

PLAIN = {"README.txt", "manifest.json", "report.html", "statement.json", "verdict.json"}


def test_a_folder_holds_the_verdict_to_the_byte_and_digests_of_all(run: Path) -> None:
    made = packed(run, "pack")
    assert set(made.files) == PLAIN == {path.name for path in made.path.iterdir()}
    assert (made.path / "verdict.json").read_bytes() == (run / "verdict.json").read_bytes()
    manifest = json.loads((made.path / "manifest.json").read_text())
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made.path.iterdir()
    }
    own = digests.pop("manifest.json")
    assert manifest["sha256"] == digests
    assert own not in manifest["sha256"].values()
    assert manifest["signed_by"] is None
    statement = json.loads((made.path / "statement.json").read_text())
    assert statement["verdict_sha256"] == digests["verdict.json"]
    assert made.no_pdf == NO_PDF


def test_a_zip_holds_the_same_and_is_the_same_twice(run: Path) -> None:
    folder, first = packed(run, "pack").path, packed(run, "first.zip").path
    assert first.read_bytes() == packed(run, "second.zip").path.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            path.name: path.read_bytes() for path in folder.iterdir()
        }


def test_no_picture_no_key_and_no_journal_is_in_it(run: Path, signer: Path) -> None:
    """The run's own page has pictures of records: the pack's has none."""
    from trilemma.reporting.page.page import write_report

    shown = write_report(examples.verdict(), run).read_text()
    assert "data:image/png" in shown
    made = packed(run, "pack.zip", signer)
    content = made.path.read_bytes()
    assert b"data:image/png" not in content
    assert b"<img" not in content
    secret = (run / "run.key").read_bytes()
    private = signer.read_bytes()
    pixels = json.loads((run / "gallery.json").read_text())["columns"][0]["made"][0][:9]
    text = b"".join(content.split())
    for hidden in (
        secret,
        secret.hex().encode(),
        (run / "journal.sqlite").read_bytes(),
        private.split(b"\n")[1],
        ",".join(map(str, pixels)).encode(),
    ):
        assert hidden not in content
        assert hidden not in text


def test_a_node_s_policy_takes_the_verdict_of_a_signed_pack(
    tmp_path: Path, run: Path, signer: Path
) -> None:
    """One kind of key, one kind of signature."""
    made = packed(run, "pack", signer, "A. Tester").path
    signature = json.loads((made / "verdict.signature.json").read_text())
    assert len(base64.b64decode(signature["ed25519"])) == 64
    policy = Policy(signer=signer.with_suffix(".pub"))
    terms = claimed_terms(made / "verdict.json")
    policy.require(terms)
    with (made / "verdict.json").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(PolicyRefused, match="holds no signature"):
        policy.require(terms)


def test_who_signs_stands_in_the_manifest_and_the_statement(run: Path, signer: Path) -> None:
    made = packed(run, "pack", signer, "Data protection office, St. Example")
    assert set(made.files) == PLAIN | {"manifest.signature.json", "verdict.signature.json"}
    for name, key in (("manifest.json", "signed_by"), ("statement.json", "signed_by")):
        assert json.loads((made.path / name).read_text())[key] == {
            "name": "Data protection office, St. Example",
            "ed25519": made.signer and made.signer.ed25519,
        }
    assert "Data protection office" in (made.path / "README.txt").read_text()


@pytest.mark.parametrize("name", ["two\nlines", "x" * 201, "\x1b[31mred"])
def test_a_name_is_one_printable_line(run: Path, signer: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="printable characters"):
        packed(run, "pack", signer, name)
    assert not (run.parent / "pack").exists()


def test_a_name_without_a_signature_is_nobody_s(run: Path) -> None:
    with pytest.raises(InvalidInput, match="together with --sign"):
        packed(run, "pack", None, "A. Tester")


def test_nothing_is_written_over(run: Path) -> None:
    (run.parent / "pack").mkdir()
    (run.parent / "pack.zip").symlink_to("nowhere")
    (run.parent / "new.part").mkdir()
    for name in ("pack", "pack.zip", "new"):
        with pytest.raises(InvalidInput, match="exists already"):
            packed(run, name)


def test_a_run_without_a_finished_verdict_has_no_evidence(run: Path, tmp_path: Path) -> None:
    waits = ("Provisional: attacks on this answer are still under way, and follow.",)
    examples.verdict(limits=(*examples.verdict().limits, *waits)).save(run / "verdict.json")
    with pytest.raises(InvalidInput, match="is provisional; run trilemma tune"):
        packed(run, "pack")
    (run / "verdict.json").unlink()
    with pytest.raises(InvalidInput, match=r"holds no verdict\.json"):
        packed(run, "pack")
    examples.front().save(run / "pareto.json")
    with pytest.raises(InvalidInput, match="holds no verdict of this version"):
        packed(run, "pack")
    for text in (b"\xff\xfe", b"{", b"[]", json.dumps(examples.earlier()).encode()):
        (run / "verdict.json").write_bytes(text)
        with pytest.raises(InvalidInput):
            packed(run, "pack")
    assert not (run.parent / "pack").exists()


def test_the_sentence_of_a_provisional_verdict_is_the_one_that_is_looked_for() -> None:
    from trilemma.tuning.choice.advice import PROVISIONAL, not_yet

    (said,) = not_yet(None, {}, pending=True)  # type: ignore[arg-type]
    assert said.startswith(PROVISIONAL)


def test_a_verdict_of_nothing_is_evidence_too(run: Path) -> None:
    found = examples.verdict(chosen=None, statement="No protection was shown to keep the budget.")
    found.save(run / "verdict.json")
    text = (packed(run, "pack").path / "README.txt").read_text()
    assert "\nNo: some protections keep the limit you set" in text
    assert "[not covered]" in text


def test_without_a_browser_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert print_page(b"<html>") == (
        None,
        "There is no Chromium here, so that the pack has no PDF; it is complete.",
    )


def test_a_browser_that_fails_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    pdf, why = print_page(b"<html>")
    assert pdf is None
    assert "/bin/false printed no PDF (CalledProcessError)" in why
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/true")
    pdf, why = print_page(b"<html>")
    assert pdf is None
    assert "FileNotFoundError" in why


@pytest.mark.slow
def test_chromium_prints_the_page(run: Path) -> None:
    from trilemma.reporting.page.page import verdict_page

    pdf, why = print_page(verdict_page(examples.verdict()).encode())
    if pdf is None and "no Chromium" in why:
        pytest.skip("needs chromium: apt-get install chromium")
    assert pdf is not None, why
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 3
    if shutil.which("pdftotext"):
        done = subprocess.run(["pdftotext", "-", "-"], input=pdf, capture_output=True, check=True)
        text = done.stdout.decode()
        for sentence in examples.verdict().limits:
            assert sentence.split()[0] in text
        assert "Success rate" in text or "Leakage" in text, "plots are drawn by a script"
