from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import View, get
from trilemma.errors import InvalidInput
from trilemma.game.recovering.fisher import predict, sensitivity
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Noise, Observation
from trilemma.records.range import InputSpec

Made = tuple[list[View], torch.Tensor, torch.Tensor]


def units(count: int, *, variance: float = 0.0, known: float | None = None) -> Made:
    """Tanh networks on 10 inputs strictly inside their range."""
    task = Task(nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 4)), cross_entropy, 4)
    generator = torch.Generator().manual_seed(3)
    spec, training = InputSpec((10,), -1.0, 1.0), LocalTraining()
    views, inputs, labels = [], [], []
    for _ in range(count):
        weights = torch.rand(task.layout.size, generator=generator, dtype=torch.float64) - 0.5
        x = 1.2 * torch.rand(1, 10, generator=generator, dtype=torch.float64) - 0.6
        y = torch.randint(0, 4, (1,), generator=generator)
        update = client_update(task, weights, x, y, training)
        draw = torch.randn(len(update), generator=generator, dtype=torch.float64)
        mask = None if known is None else torch.rand(len(update), generator=generator) < known
        noise = Noise("gaussian", math.sqrt(variance)) if variance else None
        observed = update + math.sqrt(variance) * draw
        views.append(View(task, weights, Observation(observed, mask, noise), training, spec))
        inputs.append(x)
        labels.append(y)
    return views, torch.stack(inputs), torch.stack(labels)


def test_sensitivity_is_the_trace_of_the_inverse_information() -> None:
    views, inputs, labels = units(1, known=0.7)
    view, x, y = views[0], inputs[0], labels[0]

    def update(flat: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
        return client_update(view.task, view.weights, flat[None], soft[None], LocalTraining())

    one_hot = torch.nn.functional.one_hot(y[0], 4).double()
    dx, dy = torch.func.jacrev(update, argnums=(0, 1))(x[0], one_hot)
    # another basis of the simplex than the code's: differences to the last class
    assert view.observation.known is not None
    jacobian = torch.cat((dx, dy[:, :3] - dy[:, 3:]), 1)[view.observation.known]
    inverse = torch.linalg.inv(jacobian.T @ jacobian)
    expected = float(inverse.diagonal()[:10].mean())
    assert sensitivity(view, x, y).item() == pytest.approx(expected, rel=1e-6)


def test_each_record_of_a_batch_has_its_own_sensitivity() -> None:
    views, inputs, labels = units(1)
    view, training = views[0], LocalTraining(batch=2)
    x = torch.stack((inputs[0, 0], 0.3 - inputs[0, 0]))
    y = torch.stack((labels[0, 0], (labels[0, 0] + 1) % 4))

    def update(flat: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
        return client_update(view.task, view.weights, flat, soft, training)

    one_hot = torch.nn.functional.one_hot(y, 4).double()
    dx, dy = torch.func.jacrev(update, argnums=(0, 1))(x, one_hot)
    simplex = (dy[:, :, :3] - dy[:, :, 3:]).flatten(1)
    jacobian = torch.cat((dx.flatten(1), simplex), 1)
    diagonal = torch.linalg.inv(jacobian.T @ jacobian).diagonal()[:20]
    batch = View(view.task, view.weights, view.observation, training, view.input_spec)
    found = sensitivity(batch, x, y)
    assert found.tolist() == pytest.approx(diagonal.reshape(2, 10).mean(1).tolist(), rel=1e-5)
    assert found[0] != pytest.approx(float(found[1]), rel=0.01), "they differ here"
    prediction = predict([batch], x[None], y[None])
    between = 1e-2 * 4 / float(found.mean())
    assert prediction.success(between, 20.0) == 0.5, "one of the two"
    assert prediction.half_point(20.0) == pytest.approx(between)


def test_entries_at_the_border_count_half() -> None:
    views, inputs, labels = units(1)
    view = views[0]
    wide = sensitivity(view, inputs[0], labels[0]).item()
    low, high = float(inputs.min()), float(inputs.max())
    tight = View(
        view.task, view.weights, view.observation, view.local_training, InputSpec((10,), low, high)
    )
    assert 0.5 * wide < sensitivity(tight, inputs[0], labels[0]).item() < wide


def test_too_few_known_coordinates_are_infinitely_uncertain() -> None:
    views, inputs, labels = units(1, known=0.02)
    prediction = predict(views, inputs, labels)
    assert math.isinf(float(prediction.sensitivities[0]))
    assert prediction.success(1e-6, 20.0) == 0
    with pytest.raises(InvalidInput, match="got 0 views"):
        predict([], inputs, labels)


@pytest.mark.slow
def test_predicted_half_point_is_where_half_are_recovered() -> None:
    views, inputs, labels = units(40)
    half = predict(views, inputs, labels).half_point(25.0)
    shares = []
    for factor in (0.5, 1.0, 2.0):
        noisy, x, _ = units(40, variance=factor * half)
        found = get("dlg", iterations=200)(noisy, restarts=2, seed=0)
        mse = ((found.inputs - x) ** 2).mean((1, 2))
        shares.append(float((10 * torch.log10(4 / mse) > 25).double().mean()))
    assert shares[0] > 0.6
    assert 0.25 <= shares[1] <= 0.75
    assert shares[2] < 0.4
