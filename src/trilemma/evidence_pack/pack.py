"""A pack of evidence on a verdict, as a folder or zip. It holds no record and no picture.

`manifest.json` names the other files with their SHA-256 digests, and who signs; a signed pack has
signatures of the manifest and, for nodes' policies, of the verdict.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from trilemma.crypto.signatures import load_signing_key, shown_key, signature, signature_file
from trilemma.errors import InvalidInput
from trilemma.evidence_pack.manifest import (
    MANIFEST,
    SIGNATURE,
    Signer,
    json_text,
    manifest_of,
    zipped,
)
from trilemma.evidence_pack.printing import print_page
from trilemma.evidence_pack.reading_guide import reading_guide
from trilemma.evidence_pack.statement import Statement
from trilemma.evidence_pack.stating import state
from trilemma.execution.run_files import is_folder, new_folder, write_bytes
from trilemma.reporting.page.page import verdict_page
from trilemma.reporting.run_results import read_run
from trilemma.tuning.choice.advice import PROVISIONAL
from trilemma.tuning.results.verdict import Verdict

__all__ = ["Evidence", "write_pack"]


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


def write_pack(
    run: Path, out: Path, *, sign: Path | None = None, name: str = "", today: date | None = None
) -> Evidence:
    """Write the evidence of a run's verdict into a new folder, or a zip where `out` ends in .zip.

    The key in the file `sign` signs it, and `name` says whose that is.
    """
    for path in (out, _draft(out)):
        if os.path.lexists(path):
            raise InvalidInput(f"{path} exists already; remove it, or choose another --out.")
    key = None if sign is None else load_signing_key(sign)
    if name and (key is None or not name.isprintable() or len(name) > 200):
        raise InvalidInput(
            f"name says who signs, in up to 200 printable characters, got {name!r:.80}; give it "
            "together with --sign."
        )
    signer = None if key is None else Signer(name, shown_key(key.public_key()))
    verdict, text = _finished(run)
    statement = state(verdict, text, today or datetime.now(UTC).date(), signer)
    page = verdict_page(verdict).encode()
    pdf, no_pdf = print_page(page)
    files = {
        "README.txt": reading_guide(statement).encode(),
        Verdict.file: text,
        Statement.file: json_text(statement.as_json()),
        "report.html": page,
    }
    if pdf is not None:
        files["report.pdf"] = pdf
    if key is not None:
        files[signature_file(Path(Verdict.file)).name] = signature(key, text)
    manifest = manifest_of(files, signer)
    if key is not None:
        files[SIGNATURE] = signature(key, manifest)
    files[MANIFEST] = manifest
    _write(files, out)
    return Evidence(out, tuple(sorted(files)), signer, no_pdf)


def _finished(run: Path) -> tuple[Verdict, bytes]:
    """The verdict of a run, and its file to the byte, by which nodes know it."""
    verdict, folder = read_run(run)
    if not isinstance(verdict, Verdict):
        raise InvalidInput(
            f"{run} holds no verdict of this version; run trilemma tune, and give its folder."
        )
    if any(sentence.startswith(PROVISIONAL) for sentence in verdict.limits):
        raise InvalidInput(
            f"the verdict of {run} is provisional; run trilemma tune with --out {folder} again, "
            "to its end."
        )
    return verdict, (run / Verdict.file if is_folder(run) else run).read_bytes()


def _write(files: dict[str, bytes], out: Path) -> None:
    """All files, or none."""
    new_folder(out.parent)
    if out.suffix == ".zip":
        write_bytes(out, zipped(files))
        return
    draft = new_folder(_draft(out))
    for name, text in files.items():
        write_bytes(draft / name, text)
    draft.rename(out)


def _draft(out: Path) -> Path:
    return out.with_name(f"{out.name}.part")
