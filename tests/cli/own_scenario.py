"""A user's module: a scenario so small that hundreds of games take seconds, and bad ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss
from torch.utils.data import TensorDataset

from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining


def _data(size: int, seed: int) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    return TensorDataset(
        torch.rand(size, 6, generator=draw), torch.randint(0, 3, (size,), generator=draw)
    )


def small(clients: int = 2, *, show_records: bool = False) -> Scenario:
    return Scenario(
        nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 3)),
        cross_entropy,
        [_data(80, seed) for seed in range(clients)],
        _data(40, 99),
        LocalTraining(batch=1),
        name="small",
        rounds=60,  # most records are used in one of them
        show_records=show_records,
    )


def shown() -> Scenario:
    return small(show_records=True)


def absolute() -> Scenario:
    """Regression by absolute errors."""
    inputs = _data(100, 0).tensors[0]
    own, test = (TensorDataset(value, value.mean(1, True)) for value in (inputs[:80], inputs[80:]))
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
    return Scenario(model, l1_loss, [own, own], test, LocalTraining(batch=1), rounds=4)


class _NotANumber(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) / torch.zeros(())


def returns_nan() -> Scenario:
    return Scenario(_NotANumber(6, 3), cross_entropy, [_data(9, 0)], _data(9, 1))


def labels_out_of_range() -> Scenario:
    return Scenario(nn.Linear(6, 2), cross_entropy, [_data(9, 0)], _data(9, 1))


def infinite_inputs() -> Scenario:
    data = _data(9, 0)
    data.tensors[0][4, 2] = float("inf")
    return Scenario(nn.Linear(6, 3), cross_entropy, [data], _data(9, 1))


def constant_inputs() -> Scenario:
    data = _data(9, 0)
    data.tensors[0].fill_(0.5)
    return Scenario(nn.Linear(6, 3), cross_entropy, [data], _data(9, 1))


class _Once(torch.autograd.Function):
    """A loss with a derivative, but no second one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: object, inputs: object, output: object) -> None:
        ctx.save_for_backward(output)  # type: ignore[attr-defined]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        (output,) = ctx.saved_tensors  # type: ignore[attr-defined]
        product: torch.Tensor = grad * output
        return product


def _once(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    apply: Callable[[torch.Tensor], torch.Tensor] = _Once.apply
    return apply(cross_entropy(outputs, labels))


def loss_differentiable_once() -> Scenario:
    return Scenario(nn.Linear(6, 3), _once, [_data(9, 0)], _data(9, 1))


class _Mixing(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs @ torch.ones(6, 6))


def of_one_precision() -> Scenario:
    return Scenario(_Mixing(6, 3), cross_entropy, [_data(9, 0)], _data(9, 1))


class _Moody(nn.Linear):
    """Works while a scenario is made, and fails later, as code does that meets odd values."""

    calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        _Moody.calls += 1
        if _Moody.calls > 100:
            raise ArithmeticError("odd values")
        return super().forward(inputs)


def fails_later() -> Scenario:
    _Moody.calls = 0
    data = [_data(80, seed) for seed in range(2)]
    return Scenario(_Moody(6, 3), cross_entropy, data, _data(40, 99), rounds=8)
