from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen

from trilemma.attacks.matching import Minima, minimise
from trilemma.attacks.matching.lbfgs import Evaluate, Search, StaticEvaluation

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


def waiting(self: Search, evaluate: Evaluate) -> tuple[Callable[[], None], int]:
    return lambda: self.slots.advance(*evaluate(self.slots.trial)), 8


@pytest.mark.parametrize("slots", [3, 9])
def test_slots_that_ended_stay_as_they_were_until_somebody_asks(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU is asked every eighth round only."""
    draw = torch.Generator().manual_seed(2)
    starts = torch.randn(9, 2, 6, generator=draw, dtype=torch.float64)
    asked = run(bind_rosenbrock, starts, tolerance=1e-9, solved=1e-9, slots=slots, iterations=90)
    monkeypatch.setattr(Search, "_rounds", waiting)
    left = run(bind_rosenbrock, starts, tolerance=1e-9, solved=1e-9, slots=slots, iterations=90)
    for name in ("points", "loss", "restart", "evaluations"):
        assert torch.equal(getattr(left, name), getattr(asked, name)), name
    assert len(set(asked.evaluations.tolist())) > 3  # they end in different rounds


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_a_gpu_does_the_rounds_as_one_graph() -> None:
    """Slots are refilled and dropped on the way, so that graphs are made more than once."""
    draw = torch.Generator().manual_seed(3)
    starts = torch.randn(40, 2, 6, generator=draw, dtype=torch.float64)
    matrices, linear = quadratics(40, 6)
    calls = []

    def found(device: str) -> Minima:
        a, b = matrices.to(device), linear.to(device)

        def bind(units: torch.Tensor) -> StaticEvaluation:
            own, shift = a[units], b[units]

            def evaluate(x: torch.Tensor) -> Pair:
                calls.append(device)
                ax = torch.einsum("nij,nj->ni", own, x)
                return 0.5 * (x * ax).sum(1) - (shift * x).sum(1), ax - shift

            return StaticEvaluation(evaluate)

        return run(bind, starts.to(device), iterations=60, slots=16)

    here, there = found("cpu"), found("cuda")
    exact = torch.linalg.solve(matrices, linear)
    torch.testing.assert_close(there.points.cpu(), exact, atol=1e-4, rtol=0)
    torch.testing.assert_close(there.loss.cpu(), here.loss, atol=1e-7, rtol=1e-7)
    assert calls.count("cuda") < calls.count("cpu") / 3
