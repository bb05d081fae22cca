"""The front's figure: every measured point once, those of the front filled."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import PathCollection
from tests.reporting import examples

from trilemma.reporting.figures.front_figure import draw_front


def test_every_point_with_costs_is_drawn_once() -> None:
    front = examples.front()
    axes = draw_front(front.points, front.front, "accuracy").axes[0]
    clouds = [
        collection for collection in axes.collections if isinstance(collection, PathCollection)
    ]
    best, rest = ([], []) if not clouds else (clouds[1::2], clouds[::2])
    drawn = sum(len(np.asarray(item.get_offsets())) for item in best)
    assert drawn == len(front.front)
    able = sum(point.objectives is not None for point in front.points)
    assert drawn + sum(len(np.asarray(item.get_offsets())) for item in rest) == able
    places = {tuple(row) for item in best for row in np.asarray(item.get_offsets()).tolist()}
    knee = front.points[front.knee]
    leaked = 0.0 if knee.leakage is None else knee.leakage.value
    assert knee.utility_loss is not None
    assert (leaked, knee.utility_loss.value) in places
