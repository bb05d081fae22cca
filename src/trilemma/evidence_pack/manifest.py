"""The form of a pack: its manifest, and the one zip of its files."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["MANIFEST", "SIGNATURE", "Signer", "json_text", "manifest_of", "zipped"]

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.signature.json"
_KIND: Final = "trilemma evidence 1"
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Signer:
    """Who signed the manifest: a name as the signer gave it, and the 32 bytes of the key."""

    name: str
    ed25519: str


def json_text(document: Mapping[str, Any]) -> bytes:
    """A document as a pack writes it."""
    return (json.dumps(document, allow_nan=False, indent=2) + "\n").encode()


def manifest_of(files: Mapping[str, bytes], signer: Signer | None) -> bytes:
    """The manifest of all other files but its own signature."""
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
    who = None if signer is None else asdict(signer)
    return json_text({"kind": _KIND, "signed_by": who, "sha256": digests})


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The one zip of these files: sorted, not compressed, of no date."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _NO_DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, files[name])
    return made.getvalue()
