"""What does not verify: changed bytes, other files, other signers, and packs made to deceive."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.evidence_pack.packs import packed

from trilemma.crypto.signatures import (
    load_signing_key,
    new_signing_key,
    shown_key,
    signature,
)
from trilemma.errors import InvalidInput
from trilemma.evidence_pack.manifest import MANIFEST, SIGNATURE, Signer, manifest_of, zipped
from trilemma.evidence_pack.pack_check import check_pack


@pytest.fixture
def folder(run: Path, signer: Path) -> Path:
    return packed(run, "pack", signer, "A. Tester").path


@pytest.fixture
def archive(run: Path, signer: Path) -> Path:
    return packed(run, "pack.zip", signer, "A. Tester").path


@pytest.fixture
def public(signer: Path) -> Path:
    return signer.with_suffix(".pub")


def fault(pack: Path, public: Path | None = None) -> str:
    found = check_pack(pack, public)
    assert found.state == "does not verify"
    assert found.signer is None, "nobody is named who may not have signed"
    assert not found.compared
    return found.fault


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_whole_pack_verifies_and_names_its_signer(
    folder: Path, archive: Path, public: Path
) -> None:
    for pack in (folder, archive):
        found = check_pack(pack, public)
        assert (found.state, found.fault, found.compared) == ("verified", "", True)
        assert found.signer is not None
        assert found.signer.name == "A. Tester"
        alone = check_pack(pack)
        assert (alone.state, alone.compared) == ("verified", False)


def test_any_changed_byte_of_a_zip_is_refused(archive: Path, public: Path) -> None:
    """Those between the files too: names, dates and lengths of the archive."""
    whole, draw = archive.read_bytes(), random.Random(0)
    ends = [*range(40), *range(len(whole) - 1200, len(whole))]
    for place in [*draw.sample(range(len(whole)), 60), *draw.sample(ends, 240)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.randrange(8)
        archive.write_bytes(changed)
        assert fault(archive, public), place


def test_any_changed_byte_of_a_folder_is_refused(folder: Path, public: Path) -> None:
    draw = random.Random(1)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in draw.sample(range(len(whole)), 20):
            changed = bytearray(whole)
            changed[place] ^= 1 << draw.randrange(8)
            path.write_bytes(changed)
            assert fault(folder, public), (path, place)
        path.write_bytes(whole[:-1])
        assert fault(folder, public)
        path.write_bytes(whole + b"\n")
        assert fault(folder, public)
        path.write_bytes(whole)
    assert check_pack(folder, public).state == "verified"


def test_a_file_more_or_less_is_named(folder: Path, public: Path) -> None:
    files = files_of(folder)
    for name in files:
        (folder / name).unlink()
        assert name in fault(folder, public)
        (folder / name).write_bytes(files[name])
    (folder / "notes.txt").write_text("All is well.")
    assert fault(folder, public) == "added: notes.txt"


def test_an_unsigned_pack_is_not_signed(run: Path, public: Path) -> None:
    for name in ("plain", "plain.zip"):
        pack = packed(run, name).path
        for given in (None, public):
            found = check_pack(pack, given)
            assert (found.state, found.signer) == ("not signed", None)
    (run.parent / "plain" / "verdict.json").write_text("{}")
    assert fault(run.parent / "plain") == "changed: verdict.json"


def test_a_signature_cannot_be_taken_off(folder: Path, public: Path) -> None:
    """Without its signature a pack is an unsigned one, at most."""
    (folder / SIGNATURE).unlink()
    assert "no signature of manifest.json" in fault(folder)
    files = files_of(folder)
    kept = {name: text for name, text in files.items() if name != MANIFEST}
    (folder / MANIFEST).write_bytes(manifest_of(kept, None))
    assert "there is a signature" in fault(folder), "that of the verdict"
    del kept["verdict.signature.json"]
    (folder / "verdict.signature.json").unlink()
    (folder / MANIFEST).write_bytes(manifest_of(kept, None))
    assert check_pack(folder, public).state == "not signed"


def test_another_key_may_sign_anew_but_is_not_the_signer(
    folder: Path, public: Path, tmp_path: Path
) -> None:
    new_signing_key(tmp_path / "other.pem", tmp_path / "other.pub")
    other = load_signing_key(tmp_path / "other.pem")
    manifest = (folder / MANIFEST).read_bytes()
    (folder / SIGNATURE).write_bytes(signature(other, manifest))
    assert "no signature of manifest.json by the key" in fault(folder)
    files = files_of(folder)
    changed = {name: files[name] for name in files if name not in (MANIFEST, SIGNATURE)}
    changed["verdict.json"] = changed["verdict.json"].replace(b"0.3", b"0.1")
    own = manifest_of(changed, Signer("A. Tester", shown_key(other.public_key())))
    for name, text in {**changed, MANIFEST: own, SIGNATURE: signature(other, own)}.items():
        (folder / name).write_bytes(text)
    assert check_pack(folder).compared is False, "who knows no key cannot tell"
    assert "not the key in" in fault(folder, public)
    assert check_pack(folder, tmp_path / "other.pub").compared


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace(b"\n  ", b"\n   "),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"A. Tester", b"A\\u002e Tester"),
        lambda text: text.replace(b'{\n  "kind"', b'{\n  "kind": "",\n  "kind"'),
        lambda text: text.replace(b"verdict.json", b"verdict.jsoN"),
        lambda text: text.replace(b"evidence 1", b"evidence 2"),
        lambda text: text.upper(),
        lambda text: text.replace(b'"name"', b'"naem"'),
        lambda text: json.dumps({**json.loads(text), "sha256": []}).encode(),
        lambda text: json.dumps({**json.loads(text), "sha256": {"verdict.json": 3}}).encode(),
        lambda text: b"[" * 10**5,
        lambda text: b"\xff\xfe",
        lambda text: b"",
        lambda text: b"null",
        lambda text: b'{"sha256": {}, "signed_by": {"name": 1, "ed25519": 2}}',
        lambda text: text.replace(b'"A. Tester"', b"3"),
        lambda text: text.replace(b'"A. Tester"', b"null"),
        lambda text: re.sub(rb'"ed25519": "[^"]*"', b'"ed25519": 3', text),
    ],
)
def test_a_manifest_in_any_other_form_is_refused(
    folder: Path, public: Path, signer: Path, edit: Callable[[bytes], bytes]
) -> None:
    """Even where its owner signs it: what two readers may read differently proves nothing."""
    text = edit((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_bytes(text)
    assert fault(folder, public)
    (folder / SIGNATURE).write_bytes(signature(load_signing_key(signer), text))
    assert fault(folder, public)


@pytest.mark.parametrize(
    "key", ["", "AA==", "not base64", "A" * 43, base64.b64encode(b"\xff" * 32)]
)
def test_a_key_that_is_none_signs_nothing(folder: Path, key: str | bytes) -> None:
    text = key if isinstance(key, str) else key.decode()
    files = files_of(folder)
    kept = {name: files[name] for name in files if name not in (MANIFEST, SIGNATURE)}
    (folder / MANIFEST).write_bytes(manifest_of(kept, Signer("A. Tester", text)))
    assert "no signature" in fault(folder)


def test_a_manifest_that_leaves_a_file_out_does_not_cover_it(
    folder: Path, public: Path, signer: Path
) -> None:
    """Whoever signs it: every file is in the manifest, or the pack does not verify."""
    key = load_signing_key(signer)
    files = files_of(folder)
    kept = {
        name: files[name] for name in files if name not in (MANIFEST, SIGNATURE, "report.html")
    }
    own = manifest_of(kept, Signer("A. Tester", shown_key(key.public_key())))
    (folder / MANIFEST).write_bytes(own)
    (folder / SIGNATURE).write_bytes(signature(key, own))
    assert fault(folder, public) == "added: report.html"


def linked(folder: Path) -> None:
    (folder / "verdict.json").rename(folder.parent / "verdict.json")
    (folder / "verdict.json").symlink_to(folder.parent / "verdict.json")


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (linked, "'verdict.json' is no file"),
        (lambda folder: (folder / "more").mkdir(), "'more' is no file"),
        (lambda folder: os.mkfifo(folder / "pipe"), "'pipe' is no file"),
        (lambda folder: (folder / ".hidden").touch(), "'.hidden' is no file"),
        (lambda folder: (folder / "verdict\u200b.json").touch(), "is no file"),
        (lambda folder: (folder / "\x1b[31m").touch(), "is no file"),
        (
            lambda folder: [(folder / f"{'a' * n}").touch() for n in range(1, 20)],
            "larger than any",
        ),
        (lambda folder: os.truncate(folder / "report.html", 1 << 40), "larger than any pack"),
    ],
)
def test_a_folder_holds_plain_files_alone(
    folder: Path, public: Path, put: Callable[[Path], object], said: str
) -> None:
    put(folder)
    assert said in fault(folder, public)


def rezipped(files: dict[str, bytes], *more: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    """A zip by another program, which packs, and puts more behind."""
    made = io.BytesIO(zipped(files))
    with zipfile.ZipFile(made, "a") as archive:
        for name, text in more:
            archive.writestr(name, text)
    return made.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_of_tricks_is_refused_and_writes_nothing(
    folder: Path, public: Path, tmp_path: Path
) -> None:
    files, evil = files_of(folder), tmp_path / "evil.zip"
    link = zipfile.ZipInfo("verdict.json")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    others = {name: files[name] for name in files if name != "verdict.json"}
    packed_hard = io.BytesIO()
    with zipfile.ZipFile(packed_hard, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("verdict.json", b"0" * (1 << 24))
    tricks = {
        "slip": rezipped(files, ("../evil.txt", b"")),
        "absolute": rezipped(files, ("/tmp/evil.txt", b"")),
        "backslash": rezipped(files, ("..\\evil.txt", b"")),
        "folder": rezipped(files, ("more/", b"")),
        "repeated": rezipped(files, ("verdict.json", b"{}")),
        "the same repeated": rezipped(files, ("verdict.json", files["verdict.json"])),
        "link": rezipped(others, (link, b"/etc/passwd")),
        "many": rezipped({f"{'a' * n}.txt": b"" for n in range(1, 40)}),
        "before": b"#!/bin/sh\n" + zipped(files),
        "behind": zipped(files) + b"\0",
        "bomb": packed_hard.getvalue(),
        "none": b"",
        "text": b"not a zip",
        "end alone": b"PK\x05\x06" + b"\0" * 18,
    }
    before = {path.name for path in tmp_path.iterdir()}
    for name, content in tricks.items():
        evil.write_bytes(content)
        assert fault(evil, public), name
    assert {path.name for path in tmp_path.iterdir()} == before | {"evil.zip"}
    evil.write_bytes(zipped(files))
    assert check_pack(evil, public).state == "verified"


def test_a_zip_of_another_program_is_verified_as_a_folder(
    archive: Path, public: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.unpack_archive(archive, out)
    again = Path(shutil.make_archive(str(tmp_path / "again"), "zip", out))
    assert fault(again, public)
    assert check_pack(out, public).state == "verified"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.zip").open("wb") as file:
        file.truncate(1 << 40)
    assert fault(tmp_path / "huge.zip") == "it is larger than any pack"


def test_what_is_not_there_and_what_is_no_key_is_a_mistake(folder: Path, signer: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        check_pack(folder / "nowhere")
    os.mkfifo(folder.parent / "pipe.zip")
    with pytest.raises(InvalidInput, match="neither a folder nor a file"):
        check_pack(folder.parent / "pipe.zip")
    with pytest.raises(InvalidInput, match="cannot be read: File name too long"):
        check_pack(Path("x" * 5000))
    for path in (signer, folder / MANIFEST):
        with pytest.raises(InvalidInput, match="no public Ed25519 key"):
            check_pack(folder, path)


def test_a_result_is_plain_values(folder: Path) -> None:
    found = check_pack(folder)
    assert found.signer is not None
    assert found.as_json() == {
        "state": "verified", "fault": "", "signer": asdict(found.signer), "compared": False,
    }  # fmt: skip
    assert json.loads(json.dumps(found.as_json())) == found.as_json()
