"""Few widths, never much wider than asked for, and the units themselves in front."""

from __future__ import annotations

import torch

from trilemma.attacks.matching.search import filled, widened


def test_widths_are_few_and_near() -> None:
    widths = set()
    for count in range(1, 130):
        units = torch.arange(count) + 5
        wide = widened(units)
        assert wide[:count].tolist() == units.tolist()
        assert set(wide[count:].tolist()) <= {5}
        assert len(wide) <= 1.25 * count
        widths.add(len(wide))
    assert len(widths) <= 25


def test_rows_are_filled_with_zeros() -> None:
    rows = torch.arange(6.0).reshape(3, 2)
    assert filled(rows, 3) is rows
    assert filled(rows, 4).tolist() == [*rows.tolist(), [0.0, 0.0]]
