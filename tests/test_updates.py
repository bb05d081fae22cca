from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.updates import Layout, Profile


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


def test_a_profile_of_observed_updates() -> None:
    samples = np.array([[0.0, 5.0, 1.0], [2.0, 5.0, -3.0], [4.0, 5.0, 1.0]])
    profile = Profile.of(samples)
    assert profile.parameters == 3
    assert profile.delta == 2.0
    assert profile.floored == 1
    assert profile.sigma == pytest.approx([2.0, 2.0, math.sqrt(16 / 3)])


def test_log_precision_survives_extreme_sigmas() -> None:
    scalar = Profile(10**9, sigma=1e-200).log_precision()
    assert scalar == pytest.approx(0.5 * math.log(1e9) + 400 * math.log(10))
    vector = Profile.from_sigmas([1e-200, 1e200]).log_precision()
    assert vector == pytest.approx(400 * math.log(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parameters": 0}, "at least 1"),
        ({"parameters": 10**400}, "at most 63 bits"),
        ({"parameters": 2.5}, "integer"),
        ({"parameters": True}, "integer"),
        ({"parameters": 3, "delta": 0.0}, "delta"),
        ({"parameters": 3, "delta": math.nan}, "delta"),
        ({"parameters": 3, "sigma": -1.0}, "sigma"),
        ({"parameters": 3, "sigma": np.ones(4)}, "4 entries"),
        ({"parameters": 2, "sigma": np.array([1.0, 0.0])}, "zeros"),
        ({"parameters": 2, "sigma": np.array([1.0, math.nan])}, "entry 1 is nan"),
    ],
)
def test_bad_profiles_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Profile(**arguments)  # type: ignore[arg-type]  # wrong types are the point


def test_profiles_that_cannot_be_made() -> None:
    with pytest.raises(InvalidInput, match="every sigma is zero"):
        Profile.from_sigmas([0.0, 0.0])
    with pytest.raises(InvalidInput, match="at least 2 updates"):
        Profile.of(np.zeros((1, 4)))
    with pytest.raises(InvalidInput, match="NaN"):
        Profile.of([[1.0, math.nan], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match="give --sigma"):
        Profile(3).log_precision()
    with pytest.raises(InvalidInput, match="paillier needs delta"):
        Profile(3).require_delta("paillier")
