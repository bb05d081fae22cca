from __future__ import annotations

import torch
from torch import nn

from trilemma.attacks.posterior.axes import Axes, are_many
from trilemma.updates import Layout

WIDE = nn.Sequential(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 3))
LAYOUT = Layout.of(WIDE)


def gradients(records: int, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(records, 5, generator=draw) @ torch.randn(5, 100, generator=draw)
    rows = []
    for each in inputs:
        loss = nn.functional.cross_entropy(WIDE(each[None]), torch.tensor([0]))
        slopes = torch.autograd.grad(loss, list(WIDE.parameters()))
        rows.append(LAYOUT.flatten(dict(zip(LAYOUT.names, slopes, strict=True))))
    return torch.stack(rows)


def read(axes: Axes, rows: torch.Tensor) -> torch.Tensor:
    return axes.read(torch.split(rows, list(LAYOUT.sizes), 1))


def test_what_is_read_holds_nearly_all_inner_products() -> None:
    assert are_many(LAYOUT.size)
    rows = gradients(30)
    seen = read(Axes.of(LAYOUT, rows, torch.ones(LAYOUT.size)), rows)
    assert seen.shape == (30, 2**13)
    products, kept = rows @ rows.T, seen @ seen.T
    assert torch.allclose(kept, products, atol=1e-3 * float(products.diagonal().mean()))


def test_reading_is_an_orthonormal_projection() -> None:
    axes = Axes.of(LAYOUT, gradients(20), torch.ones(LAYOUT.size))
    units = torch.zeros(50, LAYOUT.size)
    units[torch.arange(50), torch.arange(50) * 620] = 1.0
    noise = torch.randn(60, LAYOUT.size, generator=torch.Generator().manual_seed(1))
    assert float(read(axes, units).norm(dim=1).max()) <= 1 + 1e-5
    share = read(axes, noise).square().mean()
    assert abs(float(share) - 1) < 5 * (2 / (60 * 2**13)) ** 0.5


def test_unknown_coordinates_are_never_read() -> None:
    known = (torch.arange(LAYOUT.size) % 5 == 0).float()
    rows = gradients(20)
    seen = read(Axes.of(LAYOUT, rows, known), rows)
    assert torch.equal(seen, rows[:, known > 0])


def test_a_diverged_unit_is_read_too() -> None:
    rows = torch.full((4, LAYOUT.size), torch.nan)
    assert read(Axes.of(LAYOUT, rows, torch.ones(LAYOUT.size)), rows).isnan().any()


def test_each_coordinate_is_known_by_its_tensor() -> None:
    axes, rows = Axes.of(LAYOUT, gradients(20), torch.ones(LAYOUT.size)), torch.zeros(4, 31_203)
    for place, part in enumerate(torch.split(rows, list(LAYOUT.sizes), 1)):
        part[place] = 1.0
    seen = read(axes, rows)
    assert len(axes.tensors) == 2**13
    for place in range(4):
        assert not seen[place, axes.tensors != place].any()
