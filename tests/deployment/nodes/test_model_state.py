from __future__ import annotations

import pytest
import torch

from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining
from trilemma.updates import Layout

SHARING = Terms.of("secret-sharing:clip_range=0.5", state_range=30.0)


def layout(model: torch.nn.Module) -> Layout:
    """Of all floating-point arrays, as a server sends them."""
    floats = {
        name: value for name, value in model.state_dict().items() if value.is_floating_point()
    }
    return Layout(tuple(floats), tuple(tuple(item.shape) for item in floats.values()))


@pytest.mark.parametrize("norm", [torch.nn.BatchNorm2d(3), torch.nn.BatchNorm1d(3)])
def test_buffers_have_units_of_their_own(norm: torch.nn.Module) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), norm)
    found, own = SHARING.units(layout(model)), layout(model)
    assert isinstance(found, torch.Tensor)
    for name, value in own.unflatten(found).items():
        expected = 60.0 if name in ("1.running_mean", "1.running_var") else 1.0
        assert torch.equal(value, torch.full_like(value, expected)), name


def test_weights_alone_and_grids_without_a_range_have_one_unit() -> None:
    assert SHARING.units(layout(torch.nn.Linear(4, 3))) == 1.0
    normed = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    assert Terms.of("randomization:variance=1.0").units(layout(normed)) == 1.0


def test_what_was_measured_as_any_other_coordinates_is_sent_so() -> None:
    normed = layout(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)))
    claim = Deployment(LocalTraining(batch=4), normed.size, clients=3, cohort=3, threshold=3)
    agreed = {"threshold": 3, "min_cohort": 3, "weighting": "equal", "learning_rate": 0.1}
    terms = Terms.of(SHARING, deployment=claim, **agreed)
    assert terms.units(normed) == 1.0


def test_state_goes_by_the_names_that_the_terms_give() -> None:
    named = Terms.of(SHARING, state=("2",))
    found = named.units(Layout(("1", "2"), ((1,), (2,))))
    assert torch.equal(torch.as_tensor(found), torch.tensor([1.0, 60.0, 60.0]))
    assert named.describe() != SHARING.describe(), "both sides must agree on it"
    with pytest.raises(InvalidInput, match="tuple of names"):
        Terms.of(SHARING, state="running_mean")
    with pytest.raises(InvalidInput, match="state_range"):
        Terms.of(SHARING, state_range=0)
