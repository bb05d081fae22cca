"""Whether a pack is whole and signed. It is read in memory: nothing of it is run or unpacked."""

from __future__ import annotations

import base64
import io
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from trilemma.crypto.signatures import is_signature, load_signer
from trilemma.errors import InvalidInput
from trilemma.evidence_pack.manifest import MANIFEST, SIGNATURE, Signer, manifest_of, zipped
from trilemma.execution.run_files import is_folder, parse_json

__all__ = ["Verified", "check_pack"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z.]{0,40}")
_LARGEST: Final = 1 << 28  # bytes of a pack
_MOST_FILES: Final = 16


@dataclass(frozen=True)
class Verified:
    """Whether a pack verifies, or the `fault` that it has; `signer` is there where it does.

    `compared` says that it is the key that was given: else the pack brings its key itself.
    """

    state: Literal["verified", "not signed", "does not verify"]
    fault: str = ""
    signer: Signer | None = None
    compared: bool = False

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def check_pack(pack: Path, signer: Path | None = None) -> Verified:
    """Whether the pack in a folder or zip is whole and signed, by the key in the file `signer`."""
    wanted = None if signer is None else load_signer(signer)
    try:
        files = _folder(pack) if is_folder(pack) else _zip(pack)
        who = _named_signer(files)
        if who is None:
            signed = any(name.endswith(".signature.json") for name in files)
            _require(not signed, "its manifest names no signer, and there is a signature")
            return Verified("not signed", "its files are those of its manifest, by nobody's word")
        key = _key(who)
        _require(
            key is not None
            and is_signature(files.get(SIGNATURE, b""), key, files[MANIFEST], exact=True),
            f"{SIGNATURE} is no signature of {MANIFEST} by the key {who.ed25519}",
        )
        _require(
            wanted is None or wanted == key, f"{who.ed25519} signed it, not the key in {signer}"
        )
    except _DoesNotVerify as error:
        return Verified("does not verify", str(error))
    return Verified("verified", signer=who, compared=wanted is not None)


class _DoesNotVerify(Exception):
    pass


def _require(true: bool, fault: str) -> None:
    if not true:
        raise _DoesNotVerify(fault)


def _key(who: Signer) -> Ed25519PublicKey | None:
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(who.ed25519, validate=True))
    except ValueError:
        return None


def _named_signer(files: Mapping[str, bytes]) -> Signer | None:
    """Who the manifest says has signed; raises unless it is that of all other files."""
    _require(MANIFEST in files, f"it has no {MANIFEST}")
    others = {name: text for name, text in files.items() if name not in (MANIFEST, SIGNATURE)}
    try:
        document = parse_json(files[MANIFEST])
        digests, who = dict(document["sha256"]), document["signed_by"]
        signer = None if who is None else Signer(**who)
        texts = () if signer is None else (signer.name, signer.ed25519)
        _require(all(isinstance(text, str) for text in texts), f"changed: {MANIFEST}")
    except (ValueError, KeyError, TypeError):
        raise _DoesNotVerify(f"{MANIFEST} is no manifest of this version") from None
    for what, names in (("missing", {*digests} - {*others}), ("added", {*others} - {*digests})):
        _require(not names, f"{what}: {', '.join(sorted(names))[:200]}")
    whole = manifest_of(others, signer)
    own = parse_json(whole)["sha256"]
    changed = sorted(name for name in others if digests[name] != own[name])
    # To the byte: of a repeated key, say, other readers may take the other value.
    _require(files[MANIFEST] == whole, f"changed: {', '.join(changed or [MANIFEST])}")
    return signer


def _zip(path: Path) -> dict[str, bytes]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput(f"{path} is neither a folder nor a file; name a pack.")
        _require(found.st_size <= _LARGEST, "it is larger than any pack")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    files = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist()[:_MOST_FILES]:
                plain = entry.compress_type == zipfile.ZIP_STORED and _is_ours(entry.filename)
                _require(plain, f"{entry.filename[:80]!r} is no file of a pack")
                files[entry.filename] = archive.read(entry)
    except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, NotImplementedError):
        raise _DoesNotVerify("it is no zip file, or a damaged one") from None
    # That refuses links, comments, repeated names, and bytes between or around the files.
    whole = "it is not the zip that was written; if another program zipped it, verify its folder"
    _require(zipped(files) == content, whole)
    return files


def _folder(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = _LARGEST
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                plain = entry.is_file(follow_symlinks=False) and _is_ours(entry.name)
                _require(plain, f"{entry.name[:80]!r} is no file of a pack")
                left -= entry.stat().st_size
                _require(left >= 0 and len(files) < _MOST_FILES, "it is larger than any pack")
                files[entry.name] = Path(entry.path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}.") from None
    return files


def _is_ours(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
