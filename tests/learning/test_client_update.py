from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.learning.small import make
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from trilemma.learning import LocalTraining, Task, client_update, clip_records, draw_rows


def test_fedsgd_is_autograds_gradient() -> None:
    task, weights, inputs, targets = make()
    loss = cross_entropy(task.model(inputs), targets)
    gradients = torch.autograd.grad(loss, list(task.model.parameters()))
    expected = torch.cat([g.reshape(-1) for g in gradients])
    ours = client_update(task, weights, inputs, targets, LocalTraining(batch=6))
    assert torch.allclose(ours, expected, atol=1e-7)


@pytest.mark.parametrize("records", [None, 6])
def test_fedavg_is_torch_sgd(records: int | None) -> None:
    task, weights, inputs, targets = make()
    setting = LocalTraining("fedavg", lr=0.3, steps=4, batch=2, records=records)
    size = setting.unit_size
    optimiser = torch.optim.SGD(task.model.parameters(), lr=0.3)
    for step in range(4):
        rows = [(step * 2 + i) % size for i in range(2)]
        optimiser.zero_grad()
        loss = cross_entropy(task.model(inputs[rows]), targets[rows])
        torch.autograd.backward(loss)
        optimiser.step()
    after = torch.cat([p.detach().reshape(-1) for p in task.model.parameters()])
    ours = client_update(task, weights, inputs[:size], targets[:size], setting)
    assert torch.allclose(ours, weights - after, atol=1e-6)


def each_gradient(
    task: Task, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> list[torch.Tensor]:
    """Gradients of single records by autograd, one at a time."""
    made = []
    for one, label in zip(x, y, strict=True):
        flat = weights.clone().requires_grad_()
        outputs = torch.func.functional_call(task.model, task.layout.unflatten(flat), (one[None],))
        made.append(torch.autograd.grad(cross_entropy(outputs, label[None]), flat)[0])
    return made


def clipped_sum(rows: list[torch.Tensor], clip: float, present: torch.Tensor) -> torch.Tensor:
    kept = [
        row * min(1.0, clip / row.norm().item())
        for row, here in zip(rows, present, strict=True)
        if here
    ]
    return sum(kept, torch.zeros_like(rows[0]))


MASK = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
@pytest.mark.parametrize("clip", [1.4, math.inf])
@pytest.mark.parametrize("present", [None, MASK, MASK.bool()], ids=["all", "float", "bool"])
def test_records_count_one_by_one(
    sampling: Literal["fixed", "poisson"], clip: float, present: torch.Tensor | None
) -> None:
    task, weights, inputs, targets = make()
    setting = LocalTraining(
        batch=4,
        record_clip=None if clip == math.inf else clip,
        sampling=sampling,
    )
    ours = client_update(task, weights, inputs, targets, setting, present)
    rows = each_gradient(task, weights, inputs, targets)
    assert sum(row.norm().item() > 1.4 for row in rows) not in (0, 6), "some are clipped, not all"
    count = 4 if setting.by_record or present is not None else 6  # else the mean over the batch
    expected = clipped_sum(rows, clip, torch.ones(6) if present is None else present) / count
    assert torch.allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
@pytest.mark.parametrize("masked", [False, True])
def test_fedavg_clips_and_masks_in_every_step(
    sampling: Literal["fixed", "poisson"], masked: bool
) -> None:
    task, weights, inputs, targets = make()
    setting = LocalTraining(
        "fedavg",
        lr=0.3,
        steps=3,
        batch=4,
        record_clip=1.4,
        sampling=sampling,
    )
    draw = torch.Generator().manual_seed(1)
    present = (torch.rand(3, 6, generator=draw) < 0.5).float() if masked else None
    current = weights
    for step in range(3):
        rows = (
            torch.arange(6) if sampling == "poisson" else torch.arange(4 * step, 4 * step + 4) % 6
        )
        here = torch.ones(6) if present is None else present[step]
        each = each_gradient(task, current, inputs[rows], targets[rows])
        current = current - 0.3 * clipped_sum(each, 1.4, here[rows]) / 4
    ours = client_update(task, weights, inputs, targets, setting, present)
    assert torch.allclose(ours, weights - current, atol=1e-6)


def test_an_empty_batch_is_a_zero_gradient_and_padding_changes_nothing() -> None:
    task, weights, inputs, targets = make()
    for clip in (None, 1.4):
        setting = LocalTraining(batch=4, record_clip=clip, sampling="poisson")
        nobody = client_update(task, weights, inputs, targets, setting, torch.zeros(6))
        assert torch.equal(nobody, torch.zeros_like(weights))
        few = client_update(task, weights, inputs[:2], targets[:2], setting)
        padded = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
        wide = client_update(task, weights, inputs, targets, setting, padded)
        assert torch.allclose(wide, few, atol=1e-7)


@pytest.mark.parametrize("value", [1e6, 1e30, math.nan, math.inf])
def test_no_record_moves_the_update_by_more_than_its_clip(value: float) -> None:
    task, weights, inputs, targets = make()
    setting = LocalTraining(batch=4, record_clip=1.4, sampling="poisson")
    without = client_update(task, weights, inputs[1:], targets[1:], setting)
    wild = inputs.clone()
    wild[0] = value
    moved = client_update(task, weights, wild, targets, setting) - without
    assert moved.norm().item() <= 1.4 / 4 * (1 + 1e-5)


def test_weights_that_round_do_not_make_more_of_a_record_than_its_clip() -> None:
    """A server that knows the rest puts the weights where one record decides how they round."""
    model = torch.nn.Linear(4, 1, bias=False)
    task = Task(model, lambda outputs, _: outputs.mean(), None)  # a record is its own gradient
    weights = torch.full((4,), 1.5 * 2.0**13)  # 2⁻¹⁰ apart
    others, own = 2.0**-11 * (1 - 1e-4) * 6 / 5, 2.0**-11 * 2e-4 * 6
    inputs = torch.tensor([own, *[others] * 5])[:, None].expand(6, 4)
    clip = 2 * others
    setting = LocalTraining("fedavg", lr=1.0, batch=6, record_clip=clip, sampling="poisson")
    here = torch.ones(6)
    with_own = client_update(task, weights, inputs, torch.zeros(6), setting, here)
    here[0] = 0.0
    moved = with_own - client_update(task, weights, inputs, torch.zeros(6), setting, here)
    assert moved.norm().item() == pytest.approx(2 * own / 6, rel=1e-3)
    assert moved.norm().item() <= clip / 6


NUMBERS = st.floats(width=32) | st.sampled_from(
    [3.4e38, -3e38, 1e30, 1.9e19, 1e-19, 1e-23, 1e-38, 1e-45, math.nan, math.inf, 0.0]
)


@settings(max_examples=2000, deadline=None)
@given(
    values=st.lists(NUMBERS, min_size=1, max_size=20),
    repeat=st.sampled_from([1, 3, 1000]),
    clip=st.sampled_from([1e-3, 0.1, 1.0, 7.3]),
)
def test_no_gradient_is_longer_than_its_clip(
    values: list[float], repeat: int, clip: float
) -> None:
    """Against exact sums of squares, for what crafted weights make of a record."""
    gradient = torch.tensor(values, dtype=torch.float32).repeat(repeat)
    made = clip_records(torch.stack((gradient, torch.ones_like(gradient))), clip)[0]
    assert made.isfinite().all()
    length = math.hypot(*made.tolist())
    assert length <= clip * (1 + 1e-6)
    if not gradient.isfinite().all():
        assert not made.any(), "a record without a gradient contributes nothing"
    elif (own := math.hypot(*gradient.tolist())) <= clip:
        assert torch.equal(made, gradient)
    else:
        exact = gradient.double() * (clip / own)
        torch.testing.assert_close(made.double(), exact, rtol=1e-6, atol=1e-42)


def test_the_length_of_a_long_gradient_is_that_of_double_precision() -> None:
    """Rounding that goes one way: in single precision such a sum of squares is too small."""
    for value in (1.0000001, 1.1, 1.3333334, 1.9999999):
        gradient = torch.full((2, 3_000_001), value)
        made = clip_records(gradient, 1.0)
        assert float(made[0].double().norm()) == pytest.approx(1.0, rel=5e-7)


def test_a_norm_beyond_all_numbers_makes_a_gradient_zero() -> None:
    assert not clip_records(torch.full((1, 3), 1e300, dtype=torch.float64), 1.0).any()


@pytest.mark.parametrize("clip", [None, 1.4])
@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_an_attack_can_differentiate_many_units_at_once(
    clip: float | None, algorithm: Literal["fedsgd", "fedavg"]
) -> None:
    """The derivative of what is sent in the inputs, vmapped, against difference quotients."""
    task, weights, _, targets = make()
    double = Task(task.model.double(), cross_entropy, 3)
    setting = LocalTraining(
        algorithm,
        batch=4,
        record_clip=clip,
        sampling="poisson",
    )
    draw = torch.Generator().manual_seed(2)
    mix = torch.randn(weights.shape, generator=draw, dtype=torch.float64)
    units = torch.randn(3, 6, 4, generator=draw, dtype=torch.float64)
    masks = (torch.rand(3, 6, generator=draw) < 0.6).float()

    def mixed(x: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        return mix @ client_update(double, weights.double(), x, targets, setting, here)

    gradients = vmap(grad(mixed))(units, masks)
    along = torch.randn(6, 4, generator=draw, dtype=torch.float64)
    for unit, mask, gradient in zip(units, masks, gradients, strict=True):
        step = 1e-6
        ahead, behind = mixed(unit + step * along, mask), mixed(unit - step * along, mask)
        quotient = (ahead - behind).item() / (2 * step)
        assert (gradient * along).sum().item() == pytest.approx(quotient, rel=1e-5)


def test_the_mean_over_draws_is_the_full_gradient() -> None:
    """Σ_i q g_i / S = Σ_i g_i / n: Poisson sampling is unbiased, whatever is padded."""
    task, weights, inputs, targets = make()
    setting = LocalTraining(batch=2, sampling="poisson")
    draw = np.random.default_rng(5)
    drawn = [draw_rows(setting, 6, draw) for _ in range(4000)]
    rows = torch.stack([rows for rows, _ in drawn])
    present = torch.stack([mask for _, mask in drawn if mask is not None])

    def one(x: torch.Tensor, y: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        return client_update(task, weights, x, y, setting, here)

    updates = vmap(one)(inputs[rows], targets[rows], present)
    full = client_update(task, weights, inputs, targets, LocalTraining(batch=6))
    error = (updates.mean(0) - full) / (updates.std(0) / math.sqrt(4000))
    assert error.abs().max().item() < 4.5  # 43 coordinates
