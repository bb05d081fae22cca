"""Signatures of files: openssl reads and makes the same, and what is no key is one sentence."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from trilemma.crypto.signatures import (
    is_signature,
    load_signer,
    load_signing_key,
    new_signing_key,
    shown_key,
    signature,
    signature_file,
)
from trilemma.errors import InvalidInput

CONTENT = b'{"schema_version": 4}\n'


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    private, public = tmp_path / "signer.pem", tmp_path / "signer.pub"
    new_signing_key(private, public)
    return private, public


def test_openssl_verifies_what_is_signed_here(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    document = signature(load_signing_key(private), CONTENT)
    (tmp_path / "text").write_bytes(CONTENT)
    (tmp_path / "raw").write_bytes(base64.b64decode(json.loads(document)["ed25519"]))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(public)]
    files = ["-in", str(tmp_path / "text"), "-sigfile", str(tmp_path / "raw")]
    subprocess.run([*command, *files], check=True, capture_output=True)
    read = ["openssl", "pkey", "-pubin", "-in", str(public), "-outform", "DER"]
    der = subprocess.run(read, check=True, capture_output=True).stdout
    assert base64.b64decode(shown_key(load_signer(public))) == der[-32:]


def test_a_signature_is_of_one_content_by_one_key(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    document, signer = signature(load_signing_key(private), CONTENT), load_signer(public)
    assert is_signature(document, signer, CONTENT)
    assert not is_signature(document, signer, CONTENT + b" ")
    new_signing_key(tmp_path / "other.pem", tmp_path / "other.pub")
    assert not is_signature(document, load_signer(tmp_path / "other.pub"), CONTENT)
    for wrong in (b"", b"{}", b"[]", b"3", b"\xff", b'{"ed25519": 3}', b'{"ed25519": "AA=A"}'):
        assert not is_signature(wrong, signer, CONTENT)
    assert not is_signature(b"[" * 10**5, signer, CONTENT)


def test_a_pair_is_made_whole_and_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "signer.pub").write_text("precious")
    with pytest.raises(InvalidInput, match="exists already"):
        new_signing_key(tmp_path / "signer.pem", tmp_path / "signer.pub")
    assert [path.name for path in tmp_path.iterdir()] == ["signer.pub"]
    with pytest.raises(InvalidInput, match="exists already"):
        new_signing_key(tmp_path / "signer.pub", tmp_path / "new.pub")
    assert (tmp_path / "signer.pub").read_text() == "precious"


def test_what_is_no_such_key_is_one_sentence(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    other = generate_private_key(SECP256R1())
    wrong = {
        "swapped": private.read_bytes(),
        "curve": other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "noise": b"\xff\xfe",
        "empty": b"",
    }
    for name, text in wrong.items():
        (tmp_path / name).write_bytes(text)
        with pytest.raises(InvalidInput, match="no public Ed25519 key"):
            load_signer(tmp_path / name)
    secret = load_signing_key(private)
    locked = BestAvailableEncryption(b"word")
    wrong = {
        "swapped": public.read_bytes(),
        "curve": other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "locked": secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked),
    }
    for name, text in wrong.items():
        (tmp_path / name).write_bytes(text)
        (tmp_path / name).chmod(0o600)
        with pytest.raises(InvalidInput, match="no private Ed25519 key"):
            load_signing_key(tmp_path / name)
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        load_signer(tmp_path / "nowhere")
    private.chmod(0o640)
    with pytest.raises(InvalidInput, match="open to other users; run chmod 600"):
        load_signing_key(private)


def test_where_a_signature_lies() -> None:
    assert signature_file(Path("a/verdict.json")) == Path("a/verdict.signature.json")
