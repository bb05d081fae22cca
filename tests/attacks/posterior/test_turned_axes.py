from __future__ import annotations

import pytest
import torch
from torch import nn

from trilemma.attacks.posterior.turned_axes import Axes, are_many, principal_axes
from trilemma.updates import Layout

WIDE = nn.Sequential(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 3))
LAYOUT = Layout.of(WIDE)


def gradients(records: int, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(records, 5, generator=draw) @ torch.randn(5, 100, generator=draw)
    rows = []
    for item in inputs:
        loss = nn.functional.cross_entropy(WIDE(item[None]), torch.tensor([0]))
        gradients = torch.autograd.grad(loss, list(WIDE.parameters()))
        rows.append(LAYOUT.flatten(dict(zip(LAYOUT.names, gradients, strict=True))))
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


def test_the_leading_axes_of_a_long_side_hold_as_much_as_all() -> None:
    draw = torch.Generator().manual_seed(2)
    scales = 10.0 ** -torch.arange(300.0).div(10)  # a tenth less with every ten axes
    turn = torch.linalg.qr(torch.randn(300, 300, generator=draw)).Q
    rows = torch.randn(1000, 300, generator=draw) * scales.sqrt() @ turn
    axes, squares = principal_axes(rows.T @ rows), rows.T @ rows
    assert axes.shape == (300, 32)
    assert torch.allclose(axes.T @ axes, torch.eye(32), atol=1e-5)
    kept = (axes.T @ squares @ axes).diagonal().sort(descending=True).values
    best = torch.linalg.eigvalsh(squares).flip(0)
    assert torch.allclose(kept[:20].cumsum(0), best[:20].cumsum(0), rtol=1e-3)


@pytest.mark.parametrize("side", [20, 300])
@pytest.mark.parametrize("size", [0.0, 1e-150, 1e150])
def test_axes_are_orthonormal_whatever_the_size(side: int, size: float) -> None:
    draw = torch.Generator().manual_seed(4)
    rows = torch.randn(10, side, generator=draw, dtype=torch.float64)
    axes = principal_axes(size * (rows.T @ rows))
    one = torch.eye(axes.shape[1], dtype=torch.float64)
    assert torch.allclose(axes.T @ axes, one)


def test_long_sides_are_read_by_their_leading_axes() -> None:
    model = nn.Sequential(nn.Linear(200, 150), nn.ReLU(), nn.Linear(150, 160))
    layout, draw = Layout.of(model), torch.Generator().manual_seed(3)
    gradients, inputs = (torch.randn(n, 4, generator=draw) for n in (150, 200))
    made = torch.randn(20, 4, generator=draw)
    first = torch.einsum("no,ao,bo->nab", made, gradients, inputs).flatten(1)
    rest = torch.zeros(20, layout.size - first.shape[1])
    rows = torch.cat([first, rest], 1)
    axes = Axes.of(layout, rows, torch.ones(layout.size))
    seen = axes.read(torch.split(rows, list(layout.sizes), 1))
    assert seen.shape == (20, 2**13)
    assert torch.allclose(seen @ seen.T, rows @ rows.T, rtol=1e-3)
    assert len(axes.tensors) == 2**13
