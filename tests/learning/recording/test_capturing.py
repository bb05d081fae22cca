from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.learning.small import make
from torch.func import grad, vmap

from trilemma.learning import traced
from trilemma.learning.recording.capturing import Captured, Repeated, capturable
from trilemma.learning.recording.operation_list import Listing, memory

ATEN = torch.ops.aten
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def listing_of(target: Any, given: torch.Tensor, made: torch.Tensor) -> Listing:
    listing = Listing()
    argument = listing.argument()
    argument.memory = memory(given)
    listing.result = listing.operation(target, (argument,), {})
    listing.result.memory = memory(made)
    return listing


def test_what_moves_tensors_or_reads_numbers_is_not_captured() -> None:
    here, there = torch.zeros(3), torch.zeros(3, device="meta")
    number, far = torch.zeros(()), torch.zeros((), device="meta")
    assert capturable(listing_of(ATEN.neg.default, there, there))
    assert not capturable(listing_of(ATEN._to_copy.default, here, there))
    assert not capturable(listing_of(ATEN._to_copy.default, there, here))
    assert not capturable(listing_of(ATEN._to_copy.default, number, far))
    assert capturable(listing_of(ATEN.expand.default, number, there))  # travels with the launch
    assert not capturable(listing_of(ATEN._local_scalar_dense.default, there, there))
    assert not capturable(listing_of(ATEN.nonzero.default, there, there))


@cuda
def test_a_captured_function_sees_new_and_changed_arguments() -> None:
    run = Captured(lambda a, b: (a + b, {"twice": 2 * a}))
    one, other = torch.arange(3.0, device="cuda"), torch.ones(3, device="cuda")
    kept = []
    for _ in range(5):
        total, rest = run(one, other)
        kept.append(total)
        assert torch.equal(total, one + other)
        assert torch.equal(rest["twice"], 2 * one)
        one += 1
        other = other + 1
    assert [int(item[0]) for item in kept] == [1, 3, 5, 7, 9]  # results are copies


@cuda
def test_memory_is_shared_again_after_the_last_graph_is_gone() -> None:
    for shift in range(3):
        run = Captured(lambda a, shift=shift: a + shift)
        for _ in range(4):
            assert int(run(torch.ones(3, device="cuda"))[0]) == 1 + shift
        del run


@cuda
def test_a_recorded_gradient_is_the_same_as_a_graph() -> None:
    task, weights, inputs, targets = make()
    task.model.cuda()
    weights, inputs, targets = weights.cuda(), inputs.cuda(), targets.cuda()

    def gradient(at: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = vmap(grad(task.mean_loss), (0, None, None))(at, x, y)
        return made

    several = torch.stack([weights, 2 * weights])
    run = traced(("captured gradient",), task, gradient, (several, inputs, targets))
    assert isinstance(run, Captured)
    for step in range(5):
        at = several + step
        torch.testing.assert_close(run(at, inputs, targets), gradient(at, inputs, targets))


@cuda
def test_repeated_work_goes_on_where_its_tensors_are() -> None:
    total, step = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    inner = Captured(lambda a, b: a + b)
    calls = []

    def work() -> None:
        calls.append(1)
        total.copy_(inner(total, step))

    run = Repeated(work)
    for round in range(1, 8):
        run()
        assert total.tolist() == [round] * 3
    step += 1
    run()
    assert total.tolist() == [9] * 3
    assert len(calls) == 3  # two as they are, and one that is captured
