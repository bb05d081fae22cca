from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen

from trilemma.attacks.matching import Minima, minimise

Pair = tuple[torch.Tensor, torch.Tensor]


def quadratics(units: int, size: int) -> Pair:
    generator = torch.Generator().manual_seed(0)
    roots = torch.randn(units, size, size, generator=generator, dtype=torch.float64)
    matrices = roots @ roots.transpose(1, 2) + torch.eye(size)
    return matrices, torch.randn(units, size, generator=generator, dtype=torch.float64)


def run(
    bind: Callable[[torch.Tensor], Callable[[torch.Tensor], Pair]],
    starts: torch.Tensor,
    *,
    iterations: int = 500,
    slots: int = 8,
    solved: float = -1e30,
    tolerance: float = -1e30,
) -> Minima:
    like = starts[:, 0, 0]
    return minimise(
        bind,
        starts,
        torch.full_like(like, tolerance),
        solved=torch.full_like(like, solved),
        resolution=torch.zeros_like(like),
        iterations=iterations,
        history=10,
        slots=slots,
    )


def bind_quadratics(matrices: torch.Tensor, linear: torch.Tensor) -> Callable[..., object]:
    def bind(units: torch.Tensor) -> Callable[[torch.Tensor], Pair]:
        a, b = matrices[units], linear[units]

        def evaluate(x: torch.Tensor) -> Pair:
            ax = torch.einsum("nij,nj->ni", a, x)
            return 0.5 * (x * ax).sum(1) - (b * x).sum(1), ax - b

        return evaluate

    return bind


def bind_rosenbrock(units: torch.Tensor) -> Callable[[torch.Tensor], Pair]:
    def evaluate(x: torch.Tensor) -> Pair:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)
            (gradient,) = torch.autograd.grad(loss.sum(), x)
        return loss.detach(), gradient

    return evaluate


@pytest.mark.parametrize("slots", [4, 20])
def test_quadratics_are_solved_exactly(slots: int) -> None:
    matrices, linear = quadratics(20, 15)
    found = run(bind_quadratics(matrices, linear), torch.zeros(20, 1, 15).double(), slots=slots)  # type: ignore[arg-type]
    assert torch.allclose(found.points, torch.linalg.solve(matrices, linear), atol=1e-4)


def test_rosenbrock_needs_about_as_many_evaluations_as_scipy() -> None:
    generator = torch.Generator().manual_seed(1)
    starts = torch.randn(12, 1, 6, generator=generator, dtype=torch.float64)
    found = run(bind_rosenbrock, starts, tolerance=1e-10, solved=1e-10)
    for unit, start in enumerate(starts[:, 0].numpy()):
        oracle = minimize(rosen, start, method="L-BFGS-B", options={"maxcor": 10, "gtol": 1e-8})
        assert found.loss[unit] <= max(1.01 * oracle.fun, 1e-9)
    scipy_mean = np.mean(
        [minimize(rosen, s, method="L-BFGS-B", jac="2-point").nit for s in starts[:, 0].numpy()]
    )
    assert found.evaluations.double().mean() < 4 * scipy_mean


def test_a_unit_does_not_feel_its_batch_mates() -> None:
    matrices, linear = quadratics(9, 7)
    starts = torch.zeros(9, 1, 7, dtype=torch.float64)
    together = run(bind_quadratics(matrices, linear), starts, iterations=12)  # type: ignore[arg-type]
    for unit in range(9):
        one = slice(unit, unit + 1)
        alone = run(bind_quadratics(matrices[one], linear[one]), starts[one], iterations=12)  # type: ignore[arg-type]
        assert torch.allclose(alone.points[0], together.points[unit], atol=1e-8)


def test_restarts_keep_the_lowest_loss_and_stop_when_solved() -> None:
    # two wells: f(x) = (x² - 1)² + 0.3 x has its lower minimum near -1
    def bind(units: torch.Tensor) -> Callable[[torch.Tensor], Pair]:
        def evaluate(x: torch.Tensor) -> Pair:
            loss = (x**2 - 1) ** 2 + 0.3 * x
            return loss[:, 0], 4 * x * (x**2 - 1) + 0.3

        return evaluate

    starts = torch.tensor([[[1.5], [-1.5]], [[-1.5], [1.5]]], dtype=torch.float64)
    found = run(bind, starts, solved=-0.3, iterations=60)
    assert found.restart.tolist() == [1, 0]
    assert (found.points < -0.9).all()
    assert found.evaluations[1] < found.evaluations[0]


def test_a_unit_that_diverges_is_infinite_and_leaves_the_rest_alone() -> None:
    matrices, linear = quadratics(3, 4)
    matrices[1] = torch.nan
    found = run(bind_quadratics(matrices, linear), torch.zeros(3, 2, 4).double())  # type: ignore[arg-type]
    assert torch.isinf(found.loss).tolist() == [False, True, False]
    for unit in (0, 2):
        exact = torch.linalg.solve(matrices[unit], linear[unit])
        assert torch.allclose(found.points[unit], exact, atol=1e-4)
