"""A pack of evidence as a folder or zip: what `write_pack` makes, and what `check_pack` refuses.

`manifest.json` names the other files with their SHA-256 digests, and who signs; a signed pack has
signatures of the manifest and of the verdict beside them. It holds no record and no picture.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from trilemma.crypto.signatures import (
    is_signature,
    load_signer,
    load_signing_key,
    shown_key,
    signature,
    signature_file,
)
from trilemma.errors import InvalidInput, printable
from trilemma.evidence.printing import print_page
from trilemma.evidence.reading_guide import reading_guide
from trilemma.evidence.statement import Signer, Statement
from trilemma.evidence.stating import state
from trilemma.execution.run_files import is_folder, new_folder, parse_json, write_bytes
from trilemma.reporting.page.page import verdict_page
from trilemma.reporting.run_results import read_run
from trilemma.tuning.choice.advice import PROVISIONAL
from trilemma.tuning.results.verdict import Verdict

__all__ = ["Evidence", "Verified", "check_pack", "write_pack"]

_MANIFEST: Final = "manifest.json"
_SIGNATURE: Final = signature_file(Path(_MANIFEST)).name
_KIND: Final = "trilemma evidence 1"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z.]{0,40}")
_LARGEST: Final = 1 << 28  # bytes of a pack
_MOST_FILES: Final = 16
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Evidence:
    """The pack that was written: where, its files, who signed, and why there is no PDF, if so."""

    path: Path
    files: tuple[str, ...]
    signer: Signer | None
    no_pdf: str

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True)
class Verified:
    """Whether a pack verifies; `faults` says why it does not.

    The signer is the one that the manifest names, and `compared` says whether that is the key that
    was given.
    """

    state: Literal["verified", "not signed", "does not verify"]
    faults: tuple[str, ...]
    signer: Signer | None = None
    compared: bool = False

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def write_pack(
    run: Path, out: Path, *, sign: Path | None = None, name: str = "", today: date | None = None
) -> Evidence:
    """Write the evidence of a run's verdict into a new folder, or a zip if `out` ends so.

    With the key in the file `sign` it is signed, by who calls himself `name`.
    """
    if os.path.lexists(out):
        raise InvalidInput(f"{out} exists already; remove it, or choose another --out.")
    key = None if sign is None else load_signing_key(sign)
    if name and (key is None or not name.isprintable() or len(name) > 200):
        raise InvalidInput(
            f"name is who signs, a printable text of up to 200 characters, got {name!r:.80}; give "
            "--sign with it."
        )
    signer = None if key is None else Signer(name, shown_key(key.public_key()))
    verdict, text = _finished(run)
    statement = state(verdict, text, today or datetime.now(UTC).date(), signer)
    page = verdict_page(verdict).encode()
    pdf, no_pdf = print_page(page)
    files = {
        "README.txt": reading_guide(statement).encode(),
        Verdict.file: text,
        Statement.file: _json(statement.as_json()),
        "report.html": page,
    }
    if pdf is not None:
        files["report.pdf"] = pdf
    if key is not None:
        files[signature_file(Path(Verdict.file)).name] = signature(key, text)
    manifest = _manifest(files, signer)
    if key is not None:
        files[_SIGNATURE] = signature(key, manifest)
    _write({**files, _MANIFEST: manifest}, out)
    return Evidence(out, tuple(sorted([*files, _MANIFEST])), signer, no_pdf)


def check_pack(pack: Path, signer: Path | None = None) -> Verified:
    """Whether the pack in a folder or zip is whole and signed, by the key in the file `signer`."""
    wanted = None if signer is None else load_signer(signer)
    try:
        files = _folder(pack) if is_folder(pack) else _zip(pack)
        who = _require_manifest(files)
        if who is None:
            other = any(name.endswith(".signature.json") for name in files)
            _require(not other, "it has a signature, and its manifest names no signer")
            return Verified(
                "not signed", ("not signed: anyone may have written these files",), compared=False
            )
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(who.ed25519, validate=True))
        document = files.get(_SIGNATURE, b"")
        _require(
            is_signature(document, key, files[_MANIFEST]),
            f"{_SIGNATURE} is no signature of the manifest by the key that it names",
        )
        _require(
            wanted is None or wanted == key,
            f"it is signed by {who.ed25519}, which is not the key in {signer}",
        )
    except _DoesNotVerify as error:
        return Verified("does not verify", (str(error),))
    return Verified("verified", (), who, compared=wanted is not None)


class _DoesNotVerify(Exception):
    pass


def _require(true: bool, fault: str) -> None:
    if not true:
        raise _DoesNotVerify(printable(fault))


def _finished(run: Path) -> tuple[Verdict, bytes]:
    """The verdict of a run, and its file as it is: nodes know a verdict by its bytes."""
    verdict, folder = read_run(run)
    if not isinstance(verdict, Verdict):
        raise InvalidInput(
            f"{run} holds no verdict of this version; evidence is of what trilemma tune found."
        )
    if any(sentence.startswith(PROVISIONAL) for sentence in verdict.limits):
        raise InvalidInput(
            f"the verdict of {run} is provisional; run trilemma tune again with --out {folder}, "
            "to its end."
        )
    return verdict, (folder / Verdict.file if is_folder(run) else run).read_bytes()


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, allow_nan=False, indent=2) + "\n").encode()


def _manifest(files: Mapping[str, bytes], signer: Signer | None) -> bytes:
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
    who = None if signer is None else asdict(signer)
    return _json({"kind": _KIND, "signed_by": who, "sha256": digests})


def _require_manifest(files: Mapping[str, bytes]) -> Signer | None:
    """Who the manifest says has signed; raises unless it is that of all other files."""
    _require(_MANIFEST in files, f"it has no {_MANIFEST}")
    others = {name: text for name, text in files.items() if name not in (_MANIFEST, _SIGNATURE)}
    try:
        document = parse_json(files[_MANIFEST])
        digests, who = document["sha256"], document["signed_by"]
        signer = None if who is None else Signer(str(who["name"]), str(who["ed25519"]))
        names = {*digests}
    except (ValueError, KeyError, TypeError):
        raise _DoesNotVerify(f"{_MANIFEST} is no manifest of this version") from None
    for said, there in (
        ("missing", names - {*others}),
        ("not in the manifest", {*others} - names),
    ):
        _require(not there, f"{', '.join(sorted(map(str, there)))[:200]}: {said}")
    for name, text in others.items():
        same = hashlib.sha256(text).hexdigest() == digests[name]
        _require(same, f"{name} is not the file that the manifest is of")
    # To the byte, as other readers may understand a repeated key or another form in another way.
    _require(files[_MANIFEST] == _manifest(others, signer), f"{_MANIFEST} was written anew")
    return signer


def _write(files: Mapping[str, bytes], out: Path) -> None:
    """All files or none."""
    new_folder(out.parent)
    if out.suffix == ".zip":
        write_bytes(out, _zipped(files))
        return
    draft = out.with_name(f"{out.name}.part")
    try:
        draft.mkdir()
    except OSError as error:
        raise InvalidInput(
            f"cannot write {draft} ({error.strerror}); remove it, or choose another --out."
        ) from None
    for name, text in files.items():
        write_bytes(draft / name, text)
    draft.rename(out)


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """The one zip of these files: sorted, not compressed, of no date."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, files[name])
    return made.getvalue()


def _zip(path: Path) -> dict[str, bytes]:
    try:
        _require(path.stat().st_size <= _LARGEST, "it is larger than any pack")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    files = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _require(len(entries) <= _MOST_FILES, "it holds more files than any pack")
            for entry in entries:
                stored = entry.compress_type == zipfile.ZIP_STORED
                _require(stored and bool(_NAME.fullmatch(entry.filename)), _odd(entry.filename))
                files[entry.filename] = archive.read(entry)
    except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, NotImplementedError):
        raise _DoesNotVerify("it is no zip file, or a damaged one") from None
    # Which refuses links, comments, repeated names and bytes between or around the files.
    _require(
        _zipped(files) == content,
        "it is no zip that trilemma evidence wrote: unpack it, and verify the folder",
    )
    return files


def _folder(path: Path) -> dict[str, bytes]:
    files, left = {}, _LARGEST
    try:
        for entry in os.scandir(path):
            plain = entry.is_file(follow_symlinks=False)
            _require(plain and bool(_NAME.fullmatch(entry.name)), _odd(entry.name))
            left -= entry.stat().st_size
            _require(left >= 0 and len(files) < _MOST_FILES, "it is larger than any pack")
            files[entry.name] = Path(entry.path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}.") from None
    return files


def _odd(name: str) -> str:
    return f"{name[:80]!r} is no file of a pack"
