"""Pictures of records beside what attacks make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.reporting.figures.style import blank

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.game.job_results import Pictures
    from trilemma.game.recovering.recoveries import Outcomes
    from trilemma.records.range import InputSpec

__all__ = ["draw_recoveries", "draw_suite"]

_COLUMNS: Final = 12


@dataclass(frozen=True)
class _Row:
    """Pictures [n, *shape] side by side; what is said below each, and whose frame says wrong."""

    name: str
    pictures: NDArray[Any]
    said: Sequence[str] = ()
    right: Sequence[bool] = ()


def draw_recoveries(
    path: Path,
    originals: NDArray[np.float32],
    rows: Sequence[tuple[str, Outcomes]],
    spec: InputSpec,
    unit: str,
) -> None:
    """Write a PNG: the originals [P, S, *shape] on top, one row of recoveries a protection."""
    shape = originals.shape[2:]
    drawn = [_Row("original", originals.reshape(-1, *shape))]
    for name, found in rows:
        said = [f"{item:.1f} {unit}" for item in found.similarity[:, 0].reshape(-1)]
        pictures = found.pictures.reshape(-1, *shape)
        drawn.append(_Row(name.replace(":", ":\n"), pictures, said))
    _draw(path, drawn, spec.low, spec.high)


def draw_suite(
    path: Path, pictures: Mapping[str, Mapping[str, Pictures]], shape: tuple[int, ...]
) -> None:
    """Write a PNG: the records on top, then a row for each attack, wrong picks with a frame.

    `pictures[attack][protection]` are levels 0 .. 255 of inputs of this shape.
    """

    def levels(made: Any) -> NDArray[np.uint8]:
        return np.array(made, dtype=np.uint8).reshape(-1, *shape)

    rows = [_Row("original", levels(next(iter(next(iter(pictures.values())).values())).target))]
    for name, found in pictures.items():
        for spec, value in found.items():
            under, mine = "" if spec == "none" else "\nprotected", value.attacks[name]
            rows.append(_Row(f"{name}{under}", levels(mine.made), right=mine.correct))
    _draw(path, rows, 0, 255)


def _draw(path: Path, rows: Sequence[_Row], low: float, high: float) -> None:
    count = min(_COLUMNS, len(rows[0].pictures))
    figure = blank(1.1 * count + 1.3, 1.4 * len(rows))
    axes = figure.subplots(len(rows), count, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for place, axis in enumerate(line):
            axis.imshow(_image(row.pictures[place]), cmap="gray", vmin=low, vmax=high)
            axis.set(xticks=[], yticks=[], xlabel=row.said[place] if row.said else "")
            axis.xaxis.label.set_fontsize(7)
            if row.right and not row.right[place]:
                for side in axis.spines.values():
                    side.set(color="#D55E00", linewidth=2.5)
        line[0].set_ylabel(row.name, fontsize=7)
    figure.savefig(path, dpi=150)


def _image(values: NDArray[Any]) -> NDArray[Any]:
    """[1, h, w] or [3, h, w] as matplotlib wants it; any other as rows of its last axis."""
    if values.ndim == 3 and values.shape[0] in (1, 3):
        return np.moveaxis(values, 0, -1)
    return values.reshape(-1, values.shape[-1])
