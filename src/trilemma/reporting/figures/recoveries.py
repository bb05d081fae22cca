"""A picture of originals beside what an attack recovered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.beliefs.recovery import Range
    from trilemma.estimation.recoveries import Outcomes

__all__ = ["draw_recoveries"]

_COLUMNS: Final = 12


def draw_recoveries(
    path: Path,
    originals: NDArray[np.float32],
    rows: Sequence[tuple[str, Outcomes]],
    spec: Range,
    unit: str,
) -> None:
    """Write a PNG: the originals [P, S, *shape] on top, one row of recoveries a protection."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = min(_COLUMNS, originals.shape[0] * originals.shape[1])
    figure = Figure(figsize=(1.1 * count + 1.2, 1.45 * (len(rows) + 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows) + 1, count, squeeze=False)
    shape = originals.shape[2:]
    pictures: list[tuple[str, NDArray[np.float32], NDArray[np.float64] | None]] = [
        ("original", originals, None),
        *((name, o.pictures, o.similarity[:, 0]) for name, o in rows),
    ]
    for line, (name, images, similarity) in zip(axes, pictures, strict=True):
        flat = images.reshape(-1, *shape)
        for column, axis in enumerate(line):
            axis.imshow(_as_image(flat[column]), cmap="gray", vmin=spec.low, vmax=spec.high)
            axis.set_xticks([])
            axis.set_yticks([])
            if similarity is not None:
                axis.set_xlabel(f"{similarity.reshape(-1)[column]:.1f} {unit}", fontsize=7)
        line[0].set_ylabel(name.replace(":", ":\n"), fontsize=7)
    figure.savefig(path, dpi=150)


def _as_image(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """[1, h, w] or [3, h, w] as matplotlib wants it; anything else as one line of pixels."""
    if values.ndim == 3 and values.shape[0] in (1, 3):
        return np.moveaxis(values, 0, -1)
    return values if values.ndim == 2 else values.reshape(1, -1)
