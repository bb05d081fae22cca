from __future__ import annotations

import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.updates import Layout


def small_model() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3))


def test_flatten_and_unflatten_are_inverse_and_views() -> None:
    model = small_model()
    layout = Layout.of(model)
    tensors = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    flat = layout.flatten(tensors)
    assert flat.shape == (layout.size,) == (sum(p.numel() for p in model.parameters()),)
    back = layout.unflatten(flat)
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor)
        back[name].zero_()
    assert not flat.any(), "unflatten returns views: writing to them writes to the vector"


def test_a_single_tensor_is_flattened_without_a_copy() -> None:
    layout = Layout(("weight",), ((2, 3),))
    tensor = torch.zeros(2, 3)
    layout.flatten({"weight": tensor})[4] = 1.0
    assert tensor[1, 1] == 1.0


def test_frozen_parameters_are_not_sent() -> None:
    model = small_model()
    model[0].requires_grad_(False)
    assert Layout.of(model).names == ("2.weight", "2.bias")
    with pytest.raises(InvalidInput, match="no trainable parameter"):
        Layout.of(model.requires_grad_(False))


def test_updates_of_another_model_are_refused() -> None:
    layout = Layout.of(torch.nn.Linear(3, 2))
    with pytest.raises(InvalidInput, match="lacks the tensor 'bias'"):
        layout.flatten({"weight": torch.zeros(2, 3)})
    with pytest.raises(InvalidInput, match=r"shape \(3, 2\)"):
        layout.flatten({"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})
    with pytest.raises(InvalidInput, match=r"\(8,\)"):
        layout.unflatten(torch.zeros(9))
