"""The ladder's figure tells what is sure from what is an estimate."""

from __future__ import annotations

import numpy as np
from tests.reporting import examples

from trilemma.reporting.figures.ladder import draw_ladder
from trilemma.reporting.words.ladder import ladder


def test_only_what_is_sure_is_filled_on_the_ladder() -> None:
    steps = ladder(examples.verdict())
    assert steps is not None
    axes = draw_ladder(steps).axes[0]
    filled = [
        len(np.asarray(each.get_offsets()))
        for each in axes.collections
        if not np.allclose(each.get_facecolor(), 1)
    ]
    assert sum(filled) == 3 + 4, "three families tested, and a key on four rungs"
