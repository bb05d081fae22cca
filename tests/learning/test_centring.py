"""Centred layers compute the same function, and send the gradient of (W, b + W m)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, cross_entropy, linear, pad

from trilemma.learning import Task
from trilemma.learning.modules import centred, read_by_layers, shift_biases


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 6), nn.Tanh(), nn.Linear(6, 3))


def convolutional() -> nn.Module:
    convolution = nn.Conv2d(2, 4, 3, stride=2, padding=(1, 2), dilation=(1, 2))
    return nn.Sequential(convolution, nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))


MODELS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "dense": ("1", dense),
    "convolutional": ("0", convolutional),
}


def records() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.rand(5, 2, 4, 4, generator=draw) + 1, torch.randint(0, 3, (5,), generator=draw)


def weights_of(model: nn.Module) -> torch.Tensor:
    layout = Task(model, cross_entropy, 3).layout
    return layout.flatten(dict(model.named_parameters())).detach()


def means_of(model: nn.Module) -> dict[str, torch.Tensor]:
    layout = Task(model, cross_entropy, 3).layout
    return read_by_layers(model, layout, weights_of(model), records()[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_centred_model_is_the_same_function_and_the_given_one_stays(name: str) -> None:
    layer, make = MODELS[name]
    model, (inputs, _) = make(), records()
    before = weights_of(model)
    made = centred(model, {layer: means_of(model)[layer]})
    assert torch.allclose(made(inputs), model(inputs), atol=1e-5)
    assert torch.equal(weights_of(model), before)
    assert not torch.allclose(weights_of(made), before, atol=1e-2)
    assert [parameter.shape for parameter in made.parameters()] == [
        e.shape for e in model.parameters()
    ]


def test_means_are_those_of_what_layers_read() -> None:
    inputs, _ = records()
    assert torch.allclose(means_of(dense())["1"], inputs.flatten(1).mean(0))
    found = means_of(convolutional())
    assert torch.allclose(found["0"], inputs.mean((0, 2, 3))[:, None, None])
    without = nn.Sequential(nn.Flatten(), nn.Linear(32, 6, bias=False), nn.Linear(6, 3))
    assert set(means_of(without)) == {"2"}, "without a bias nothing can take up the mean"


@pytest.mark.parametrize("name", MODELS)
def test_its_gradient_is_that_of_the_explicit_parametrisation(name: str) -> None:
    """As functions of W and b̃, with x - m written out; the gradient of W is δ (x - m)ᵀ."""
    layer, make = MODELS[name]
    model, (inputs, labels) = make(), records()
    mean = means_of(model)[layer]
    made = centred(model, {layer: mean})
    parameters = list(made.parameters())
    found = torch.autograd.grad(cross_entropy(made(inputs), labels), parameters)
    explicit = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    if name == "dense":
        hidden = torch.tanh(linear(inputs.flatten(1) - mean, *explicit[:2]))
    else:
        read = pad(inputs, (2, 2, 1, 1)) - mean
        hidden = torch.tanh(
            conv2d(read, explicit[0], explicit[1], stride=2, dilation=(1, 2))
        ).flatten(1)
    expected = torch.autograd.grad(cross_entropy(linear(hidden, *explicit[2:]), labels), explicit)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    plain = torch.autograd.grad(cross_entropy(model(inputs), labels), list(model.parameters()))
    assert not torch.allclose(found[0], plain[0], atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_biases_take_up_what_is_subtracted(name: str) -> None:
    layer, make = MODELS[name]
    model, (inputs, _) = make(), records()
    means = {layer: means_of(model)[layer]}
    made = centred(model, means)
    made.load_state_dict(model.state_dict())  # as whoever loads plain weights
    shift_biases(made, means)
    assert torch.allclose(made(inputs), model(inputs), atol=1e-5)
