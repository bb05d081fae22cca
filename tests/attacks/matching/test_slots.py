from __future__ import annotations

import pytest
import torch

from trilemma.attacks.matching import slots as module
from trilemma.attacks.matching.slots import Slots
from trilemma.learning.recording.scripting import Scripted


def rounds(width: int, history: int, size: int, dtype: torch.dtype) -> Slots:
    """Sixty rounds in valleys of different steepness; a slope fails now and then."""
    draw = torch.Generator().manual_seed(0)
    steep = 1 + 99 * torch.rand(width, size, generator=draw, dtype=dtype)
    starts = torch.randn(width, size, generator=draw, dtype=dtype)
    slots = Slots.idle(width, history, starts, 50)
    limits = torch.zeros(width, dtype=dtype)
    slots.begin(torch.arange(width), starts, limits - 1, limits)
    for turn in range(60):
        x = slots.trial
        gradient = 4 * steep * x**3
        if turn in (0, 20):
            gradient[-1] = torch.nan
        slots.advance((steep * x**4).sum(1), gradient)
    return slots


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_list_of_operations_is_the_same_as_python_for_all_widths(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(module._scripted(), Scripted)
    sizes = [(1, 3, 7), (2, 2, 3), (3, 10, 1), (9, 4, 40), (17, 8, 5)]
    listed = [rounds(*size, dtype) for size in sizes]
    monkeypatch.setattr(module, "_scripted", lambda: module._judged)
    for found, size in zip(listed, sizes, strict=True):
        oracle = rounds(*size, dtype)
        for name in ("point", "trial", "loss", "step", "slope", "spent", "ended"):
            assert torch.equal(getattr(found, name), getattr(oracle, name)), (size, name)
        assert torch.equal(found.memory.count, oracle.memory.count)
        assert found.spent[-1] == 1, "it broke where it began"
        assert (found.loss[:-1] < 1e-3).all()
