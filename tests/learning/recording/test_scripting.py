from __future__ import annotations

import gc
import weakref
from typing import Any

import torch
from tests.learning.small import make
from torch.func import grad, vmap

from trilemma.learning import traced
from trilemma.learning.recording import tracing
from trilemma.learning.recording.scripting import Scripted


def test_the_bits_are_pythons_however_often_it_is_called() -> None:
    """TorchScript would change its plan after a few calls, if it were let."""
    task, weights, inputs, targets = make()

    def energy(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        slope: torch.Tensor = grad(task.mean_loss)(at, x, y)
        return slope.square().sum()

    function = vmap(grad(energy), (0, None, None))
    example = (torch.stack([inputs, -inputs]), weights, targets)
    run = traced(("often",), task, function, example)
    assert isinstance(run, Scripted)
    for step in range(5):
        given = (example[0] + step, *example[1:])
        assert torch.equal(run(*given), run.function(*given))


def test_results_keep_their_form() -> None:
    task, weights, _, _ = make()

    def formed(at: torch.Tensor) -> Any:
        return [at + 1], {"twice": (2 * at, at)}

    ones, rest = traced(("formed",), task, formed, (weights,))(3 * weights)
    assert isinstance(ones, list)
    assert torch.equal(ones[0], 3 * weights + 1)
    assert torch.equal(rest["twice"][0], 6 * weights)
    assert torch.equal(rest["twice"][1], 3 * weights)


def test_what_torchscript_cannot_tell_is_done_from_python() -> None:
    task, weights, _, _ = make()
    run = traced(("numbers",), task, lambda at: (at + 1, "a word"), (weights,))
    assert not isinstance(run, Scripted)
    made, word = run(2 * weights)
    assert torch.equal(made, 2 * weights + 1)
    assert word == "a word"


def test_what_is_forgotten_holds_no_memory() -> None:
    """torch.jit.trace would keep it, with all constants, until the process ends."""
    held = torch.ones(3)
    gone = weakref.ref(held)
    run = tracing._recorded(lambda at, held=held: at + held, (torch.zeros(3),))
    assert isinstance(run, Scripted)
    assert torch.equal(run(torch.ones(3)), torch.full((3,), 2.0))
    del run, held
    gc.collect()
    assert gone() is None
