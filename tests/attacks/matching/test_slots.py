from __future__ import annotations

import pytest
import torch

from trilemma.attacks.matching.slots import Slots


def rounds(steep: torch.Tensor, starts: torch.Tensor, history: int) -> Slots:
    """Sixty rounds in valleys steep·x⁴, of which the last fails at once."""
    width = len(starts)
    slots = Slots.idle(width, history, starts, 50)
    limits = torch.zeros(width, dtype=starts.dtype)
    slots.begin(torch.arange(width), starts, limits - 1, limits)
    for turn in range(60):
        x = slots.trial
        gradient = 4 * steep * x**3
        if turn == 0 and width > 1:
            gradient[-1] = torch.nan
        slots.advance((steep * x**4).sum(1), gradient)
    return slots


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("width", "history", "size"), [(2, 2, 3), (9, 4, 40), (17, 8, 5)])
def test_a_slot_searches_beside_others_as_it_does_alone(
    width: int, history: int, size: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(0)
    steep = 1 + 99 * torch.rand(width, size, generator=draw, dtype=dtype)
    starts = torch.randn(width, size, generator=draw, dtype=dtype)
    together = rounds(steep, starts, history)
    for place in range(width - 1):
        alone = rounds(steep[[place]], starts[[place]], history)
        assert together.spent[place] == alone.spent[0]
        torch.testing.assert_close(together.loss[place], alone.loss[0], rtol=1e-3, atol=1e-12)
    assert together.spent[-1] == 1, "it broke where it began"
    assert (together.loss[:-1] < 1e-3).all()
