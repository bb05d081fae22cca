from __future__ import annotations

import pytest
import torch

from trilemma.attacks.matching.lbfgs_history import Memory

Pair = tuple[torch.Tensor, torch.Tensor]


def two_loops(pairs: list[Pair], gradient: torch.Tensor) -> torch.Tensor:
    """-H·g as Nocedal wrote it."""
    left, along = gradient.clone(), []
    for s, y in reversed(pairs):
        along.append((s @ left) / (s @ y))
        left -= along[-1] * y
    if pairs:
        s, y = pairs[-1]
        left *= (s @ y) / (y @ y)
    for (s, y), item in zip(pairs, reversed(along), strict=True):
        left += (item - (y @ left) / (s @ y)) * s
    return -left


def test_directions_are_those_of_the_two_loops_whatever_each_slot_has_kept() -> None:
    """More pairs than there is room for; now and then slots keep none, are cleared or dropped."""
    draw = torch.Generator().manual_seed(0)
    memory = Memory.empty(6, 4, torch.zeros(5, dtype=torch.float64))
    kept: list[list[Pair]] = [[] for _ in range(6)]
    for turn in range(30):
        seen = torch.randn(len(kept), 3, 5, generator=draw, dtype=torch.float64)
        seen[:, 2] = seen[:, 0] * (1 + torch.rand(len(kept), 5, generator=draw))
        slots = torch.rand(len(kept), generator=draw) < 0.7
        if turn == 12:
            cleared = torch.arange(len(kept)) == 2
            memory.clear(cleared)
            kept[2] = []
        if turn == 20:
            memory.keep(torch.tensor([4, 2, 0]))
            kept = [kept[place] for place in (4, 2, 0)]
            seen, slots = seen[:3], slots[:3]
        found = memory.update(slots, seen.clone())
        for own, add, (s, _, y) in zip(kept, slots.tolist(), seen, strict=True):
            if add:
                own.append((s, y))
                del own[:-4]
        oracle = [
            two_loops(own, gradient) for own, (_, gradient, _) in zip(kept, seen, strict=True)
        ]
        torch.testing.assert_close(found, torch.stack(oracle), rtol=1e-8, atol=1e-8)
    assert min(memory.count.tolist()) > 4


def test_products_are_those_of_rows_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that lie otherwise they round otherwise: of 18 numbers, or 54, but not of 64."""
    pieces: list[bool] = []
    product = torch.bmm

    def noting(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        if rows.shape[1] == 2:
            pieces.append(rows.is_contiguous())
        return product(rows, others)

    monkeypatch.setattr(torch, "bmm", noting)
    seen = torch.randn(4, 3, 18, generator=torch.Generator().manual_seed(0))
    Memory.empty(4, 10, seen[0, 0]).update(torch.ones(4, dtype=torch.bool), seen)
    assert pieces == [True]
