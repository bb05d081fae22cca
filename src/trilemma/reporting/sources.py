"""What a run left to be shown: its verdict or its front, and its gallery."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from trilemma.errors import InvalidInput
from trilemma.tuning.fronts.pareto import Front
from trilemma.tuning.results.gallery import GALLERY, Gallery
from trilemma.tuning.results.verdict import Verdict

__all__ = ["Found", "read_run"]


@dataclass(frozen=True)
class Found:
    """A result and the folder it lies in; the gallery only where the verdict allows it."""

    folder: Path
    result: Verdict | Front
    gallery: Gallery | None = None


def read_run(path: Path) -> Found:
    """The result of a run folder, or in a file that `tune` or `pareto` wrote."""
    file = _file(path)
    if _is_front(file):
        front = Front.load(file)
        able = {n for n, each in enumerate(front.points) if each.objectives is not None}
        _require(
            able.issuperset((*front.front, front.knee)),
            file,
            "front and knee name measured points",
        )
        return Found(file.parent, front)
    verdict = Verdict.load(file)
    _require(
        (verdict.choice is None) == (verdict.chosen is None), file, "chosen names a candidate"
    )
    pictures = file.parent / GALLERY
    shown = verdict.show_records and pictures.exists()
    return Found(file.parent, verdict, Gallery.load(pictures) if shown else None)


def _require(true: bool, file: Path, what: str) -> None:
    if not true:
        raise InvalidInput(
            f"{file} was edited, and it is no longer true that its {what}; take the file that "
            f"trilemma wrote."
        )


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in ("verdict.json", "pareto.json"):
        if (path / name).exists():
            return path / name
    raise InvalidInput(
        f"{path} holds neither verdict.json nor pareto.json; run trilemma tune or trilemma pareto "
        f"with --out {path} first."
    )


def _is_front(file: Path) -> bool:
    """Whether it holds a front; a file that cannot be read is told of by whoever reads it."""

    def number(text: str) -> float:
        _require(math.isfinite(float(text)), file, "numbers are finite")
        return float(text)

    try:
        document = json.loads(file.read_text(), parse_float=number, parse_constant=number)
    except InvalidInput:
        raise
    except (OSError, ValueError):
        return file.name == "pareto.json"
    return isinstance(document, dict) and "hypervolume" in document
