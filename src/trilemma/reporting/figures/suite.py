"""A picture of records beside what each attack makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trilemma.reporting.figures.style import blank

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw_suite"]


def draw_suite(path: Path, pictures: dict[str, Any], shape: tuple[int, ...]) -> None:
    """Write a PNG: the records on top, then a row for each attack, wrong picks with a frame.

    `pictures[attack][protection]` are levels 0 .. 255 of inputs of this shape.
    """
    first = next(iter(next(iter(pictures.values())).values()))["tagged"]
    rows = [("original", first, [True] * len(first))]
    for name, found in pictures.items():
        for spec, each in found.items():
            under = "" if spec == "none" else "\nprotected"
            mine = each["attacks"][name]
            rows.append((f"{name}{under}", mine["made"], mine["correct"]))
    figure = blank(1.1 * len(first) + 1.4, 1.2 * len(rows))
    axes = figure.subplots(len(rows), len(first), squeeze=False)
    for line, (name, levels, correct) in zip(axes, rows, strict=True):
        for axis, each, right in zip(line, levels, correct, strict=True):
            image = _image(np.array(each, dtype=np.uint8), shape)
            axis.imshow(image, cmap="gray", vmin=0, vmax=255)
            axis.set_xticks([])
            axis.set_yticks([])
            for side in axis.spines.values():
                side.set(color="black" if right else "#D55E00", linewidth=0.8 if right else 2.5)
        line[0].set_ylabel(name, fontsize=7)
    figure.savefig(path, dpi=150)


def _image(levels: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """[1, h, w] or [3, h, w] as matplotlib wants it; any other as rows of its last axis."""
    values = levels.reshape(shape)
    if values.ndim == 3 and shape[0] in (1, 3):
        return np.moveaxis(values, 0, -1)
    return values.reshape(-1, shape[-1])
