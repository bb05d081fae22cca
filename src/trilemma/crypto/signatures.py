"""Ed25519 signatures of files: keys in PEM as openssl writes them, and the document beside a file.

A signature of `x.json` is the file `x.signature.json`, which holds {"ed25519": base64}.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from trilemma.crypto.new_files import write_new
from trilemma.errors import InvalidInput

__all__ = [
    "is_signature", "load_signer", "load_signing_key", "new_signing_key", "shown_key", "signature",
    "signature_file",
]  # fmt: skip

_MAKE = "make one with `trilemma keys new --sign`"


def new_signing_key(path: Path, public: Path) -> None:
    """Writes a new key with mode 0600 and its public part; existing files are not overwritten."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_new(path, private.decode("ascii"), 0o600)
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        write_new(public, shown.decode("ascii"), 0o644)
    except InvalidInput:
        path.unlink()  # so that the corrected command finds its name free
        raise


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a file; refused where other users may read it."""
    key = _loaded(path, load_pem_private_key, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} holds no private Ed25519 key in PEM without a passphrase; {_MAKE}."
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise InvalidInput(f"{path} is open to other users; run chmod 600 on it.")
    return key


def load_signer(path: Path) -> Ed25519PublicKey:
    """The public key in a file."""
    key = _loaded(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} holds no public Ed25519 key in PEM; {_MAKE}.")
    return key


def shown_key(key: Ed25519PublicKey) -> str:
    """The key's 32 bytes in base64."""
    return base64.b64encode(key.public_bytes_raw()).decode("ascii")


def signature_file(path: Path) -> Path:
    """Where the signature of a file lies."""
    return path.with_name(f"{path.stem}.signature.json")


def signature(key: Ed25519PrivateKey, content: bytes) -> bytes:
    """The document that says that the key's owner signed this content."""
    return _document(key.sign(content))


def is_signature(
    document: bytes, key: Ed25519PublicKey, content: bytes, *, exact: bool = False
) -> bool:
    """Whether the document is that of this key and content; `exact`: as we write it."""
    try:
        signed = base64.b64decode(json.loads(document)["ed25519"], validate=True)
        key.verify(signed, content)
    except (InvalidSignature, binascii.Error, ValueError, KeyError, TypeError, RecursionError):
        return False
    return not exact or document == _document(signed)


def _document(signed: bytes) -> bytes:
    text = base64.b64encode(signed).decode("ascii")
    return (json.dumps({"ed25519": text}) + "\n").encode()


def _loaded(path: Path, load: Any, *password: None) -> Any:
    try:
        return load(path.read_bytes(), *password)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return None
