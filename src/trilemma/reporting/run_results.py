"""What a run left to be shown: its verdict or its front, and its gallery."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trilemma.errors import InvalidInput
from trilemma.execution.run_files import is_folder, parse_json
from trilemma.paper_framework.paper_result import Paper
from trilemma.tuning.results.gallery import GALLERY, Gallery
from trilemma.tuning.results.pareto_front import Front
from trilemma.tuning.results.verdict import Verdict

__all__ = ["Earlier", "Result", "gallery_of", "read_run"]

_VERDICT: Final = frozenset(("schema_version", "protection", "basis", "candidates"))


@dataclass(frozen=True)
class Earlier:
    """A verdict of an earlier schema, as the plain values of its file."""

    version: int
    document: dict[str, Any]


Result = Verdict | Front | Paper | Earlier


def read_run(path: Path) -> tuple[Result, Path]:
    """The result of a run folder, or in a file that a command wrote, and the folder."""
    file = _file(path)
    if file.name == Paper.file:
        return Paper.load(file), file.parent
    document = _document(file)
    if file.name == "pareto.json" if document is None else "hypervolume" in document:
        return _front(file), file.parent
    if document is not None and document.keys() >= _VERDICT:
        version = document["schema_version"]
        if isinstance(version, int) and 0 < version < Verdict.schema_version:
            return Earlier(version, document), file.parent
    verdict = Verdict.load(file)
    _require(
        (verdict.choice is None) == (verdict.chosen is None), file, "chosen names a candidate"
    )
    return verdict, file.parent


def gallery_of(verdict: Verdict, folder: Path) -> Gallery | None:
    """The pictures beside a verdict; not even read where its records must not be shown."""
    file = folder / GALLERY
    return Gallery.load(file) if verdict.show_records and file.exists() else None


def _front(file: Path) -> Front:
    front = Front.load(file)
    able = {n for n, point in enumerate(front.points) if point.objectives is not None}
    _require(
        able.issuperset((*front.front, front.knee)), file, "front and knee name measured points"
    )
    return front


def _require(true: bool, file: Path, what: str) -> None:
    if not true:
        raise InvalidInput(
            f"{file} was edited, and it is no longer true that its {what}; take the file that "
            f"trilemma wrote."
        )


def _file(path: Path) -> Path:
    if not is_folder(path):
        return path
    for name in ("verdict.json", "pareto.json", Paper.file):
        if (path / name).exists():
            return path / name
    raise InvalidInput(
        f"{path} holds no verdict.json, pareto.json or paper.json; run trilemma tune, trilemma "
        f"pareto or trilemma paper with --out {path} first."
    )


def _document(file: Path) -> dict[str, Any] | None:
    """The file's plain values; None for what whoever loads it will refuse in a sentence."""
    try:
        document = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
