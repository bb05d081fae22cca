"""Recorded operations made shorter: the same numbers, from fewer operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.learning.small import make
from torch.func import grad, vmap

from trilemma.learning import traced

ROWS = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


def halves(z: torch.Tensor) -> torch.Tensor:
    return (z[2:] * z[:2].sigmoid()).sum() + (z[:2] ** 3).sum()


def recorded(function: Callable[..., Any], *example: torch.Tensor) -> list[str]:
    """What is done, after a check on other numbers than those recorded with."""
    task, _, _, _ = make()
    run = traced(("shortened", function), task, function, example)
    others = tuple(1.3 * item - 0.2 for item in example)
    assert torch.equal(run(*others), function(*others))
    return [str(step.target) for step in run.steps]  # type: ignore[attr-defined]


def test_gradients_of_slices_are_joined_and_not_filled_up() -> None:
    done = recorded(vmap(grad(halves)), ROWS)
    assert "aten.slice_backward.default" not in done
    assert done.count("aten.cat.default") == 1


def test_what_is_done_twice_is_done_once() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2.0 + torch.sin(x) * 2.0 + torch.cos(x)

    done = recorded(twice, ROWS)
    assert done.count("aten.sin.default") == done.count("aten.mul.Tensor") == 1
    assert done.count("aten.cos.default") == 1


def test_ones_and_zeros_are_left_out_where_they_change_nothing() -> None:
    def plain(x: torch.Tensor) -> torch.Tensor:
        return ((x * 1.0 + 0.0) / 1 - 0).exp()

    assert recorded(plain, ROWS) == ["aten.exp.default"]

    def moved(x: torch.Tensor) -> torch.Tensor:
        return (x.t() * 1.0).add(1, alpha=0) + (x > 0).t() * 1.0

    assert "aten.mul.Tensor" in recorded(moved, ROWS), "of true and false numbers are made"


def test_what_was_left_out_once_is_left_out_again() -> None:
    assert recorded(lambda x: (x * 1.0).sin() + (x * 1.0).cos(), ROWS) == [
        "aten.sin.default",
        "aten.cos.default",
        "aten.add.Tensor",
    ]


def test_views_of_the_same_shape_are_none() -> None:
    assert recorded(lambda x: x.view(3, 4).expand(3, 4).sin(), ROWS) == ["aten.sin.default"]


def test_what_is_written_into_keeps_its_order() -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        table = torch.zeros(3, 4)
        other = torch.zeros(3, 4)
        before = table + x
        table[1] += x[0]
        same = x * 1.0
        view = same.view(-1)
        view += 1
        return before + (table + x) + other + same + x

    done = recorded(written, ROWS)
    assert done.count("aten.zeros.default") == 2
    assert "aten.mul.Tensor" in done


def test_what_is_drawn_is_drawn_twice() -> None:
    task, _, _, _ = make()

    def drawn(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.rand_like(x), torch.rand_like(x)])

    one, other = traced(("drawn",), task, drawn, (ROWS,))(ROWS)
    assert not torch.equal(one, other)
