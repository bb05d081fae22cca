from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma.attacks import ATTACKS, IDLG, InvertingGradients, View, get
from trilemma.attacks.inverting_gradients import total_variation
from trilemma.attacks.labels import infer_labels
from trilemma.attacks.matching import Units
from trilemma.errors import InvalidInput, UnknownName
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Observation
from trilemma.records.range import InputSpec
from trilemma.testing import check_attack

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

    from trilemma.attacks import Attack

Maker = Callable[..., "Problems"]


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_attack_keeps_the_contract(name: str) -> None:
    hurried: dict[str, dict[str, object]] = {
        "inverting-gradients": {"iterations": 150},
        "map": {"message_levels": ((1e-2, 40), (1e-4, 80))},
    }
    check_attack(get(name, **hurried.get(name, {})))


def test_a_cheat_fails_the_contract() -> None:
    class Lazy:
        name = "lazy"
        rung = "nothing"

        def __call__(self, views: object, *, restarts: int, seed: int) -> object:
            found = get("analytic")(views, restarts=1, seed=0)  # type: ignore[arg-type]
            return dataclasses.replace(found, inputs=torch.full_like(found.inputs, 0.5))

    class Peeking:
        name = "peeking"
        rung = "public"

        def __call__(self, views: list[View], *, restarts: int, seed: int) -> object:
            found = get("analytic")(views, restarts=1, seed=0)
            line_up = views[0].knowledge.line_up
            inputs = found.inputs if line_up is None else line_up.inputs[:, None]
            return dataclasses.replace(found, inputs=inputs)

    class Unranked(Lazy):
        rung = "everything"

    for cheat, why in (
        (Lazy(), "weakness as privacy"),
        (Peeking(), "'public' must not read what only higher rungs know"),
        (Unranked(), "rung must be one of nothing, public, candidates, rest"),
    ):
        with pytest.raises(AssertionError, match=why):
            check_attack(cheat)  # type: ignore[arg-type]


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"did you mean 'dlg'.*analytic, dlg, exact-posterior"):
        get("dlgg")
    with pytest.raises(UnknownName, match="known: history, iterations"):
        get("dlg", iteration=3)


@pytest.mark.parametrize(("name", "least"), [("dlg", 56), ("idlg", 58)])
def test_unprotected_digits_are_recovered(problems: Maker, name: str, least: int) -> None:
    made = problems(60, dtype=torch.float32)
    found = get(name)(made.views, restarts=1, seed=1)
    assert made.recovered(found.inputs) >= least
    assert found.labels is not None
    assert int((found.labels == made.labels).sum()) >= least
    assert not found.failed.any()


def test_noise_in_the_middle_of_the_curve(problems: Maker) -> None:
    made = problems(60, variance=2e-3)
    found = get("dlg")(made.views, restarts=1, seed=1)
    assert 18 <= made.recovered(found.inputs) <= 48  # reference .567


def test_masked_digits_need_only_known_coordinates(problems: Maker) -> None:
    made = problems(15, keep=0.2)
    found = get("dlg", iterations=600)(made.views, restarts=1, seed=1)
    assert made.recovered(found.inputs) >= 12


def test_the_best_restart_goes_on_where_coordinates_are_missing(problems: Maker) -> None:
    masked, whole = problems(4, keep=0.05), problems(4, variance=1e-2)
    hasty, patient = get("dlg", iterations=40, masked_iterations=0), get("dlg", iterations=40)
    before, after = (each(masked.views, restarts=2, seed=1) for each in (hasty, patient))
    assert (after.loss < before.loss).all()
    before, after = (each(whole.views, restarts=2, seed=1) for each in (hasty, patient))
    assert torch.equal(after.inputs, before.inputs)


def test_sums_of_clients_are_attacked_as_one_batch(problems: Maker) -> None:
    made = problems(8, clients=2)
    found = get("idlg")(made.views, restarts=2, seed=1)
    assert tuple(found.inputs.shape) == (8, 2, 64)
    assert made.recovered(found.inputs) >= 14


def test_sums_of_own_places_are_taken_apart_by_who_sent_what(problems: Maker) -> None:
    """At ρ = .1 most coordinates hold one client; read as sums of both they explain nothing."""
    made = problems(5, clients=2, keep=0.1, own_places=True)
    attack = get("dlg")
    assert made.recovered(attack(made.views, restarts=1, seed=1).inputs) >= 9
    naive = [
        dataclasses.replace(v, observation=dataclasses.replace(v.observation, weights=None))
        for v in made.views
    ]
    assert made.recovered(attack(naive, restarts=1, seed=1).inputs) == 0


def test_clipped_sums_are_matched_with_the_clip(problems: Maker) -> None:
    made = problems(8, clients=2, clip=0.5)
    found = get("dlg")(made.views, restarts=2, seed=1)
    assert made.recovered(found.inputs) >= 13


def test_unrolled_local_steps_beat_the_one_gradient_reading(problems: Maker) -> None:
    training = LocalTraining("fedavg", lr=0.5, steps=5, batch=2)
    made = problems(8, training=training)
    as_gradient = [
        dataclasses.replace(
            view,
            local_training=LocalTraining(batch=2),
            observation=Observation(view.observation.update / (training.lr * training.steps)),
        )
        for view in made.views
    ]
    attack = get("dlg")
    unrolled = made.recovered(attack(made.views, restarts=2, seed=1).inputs)
    naive = made.recovered(attack(as_gradient, restarts=2, seed=1).inputs)
    assert unrolled >= 13
    assert naive <= unrolled - 5


def test_label_counts_need_every_client_at_the_bias(problems: Maker) -> None:
    made = problems(20, clients=2, warm_up=0)
    shares = torch.zeros(2, 2410, dtype=torch.float64)
    shares[:, -10:] = 0.5
    rows = [with_weights(view, shares) for view in made.views]
    expected = infer_labels(Units.of(made.views, "double"), 0)
    assert expected is not None
    found = infer_labels(Units.of(rows, "double"), 0)
    assert found is not None
    assert torch.equal(found, expected)
    shares[1, -1] = 0.0
    assert infer_labels(Units.of(rows, "double"), 0) is None


def with_weights(view: View, shares: torch.Tensor) -> View:
    return dataclasses.replace(
        view, observation=dataclasses.replace(view.observation, weights=shares)
    )


def test_analytic_divides_only_what_the_same_clients_sent(problems: Maker) -> None:
    """Neurons 0-7: client 0; 8-15: client 1; the others: weights of one, bias of the other."""
    made = problems(4, clients=2)
    shares = torch.zeros(2, 2410, dtype=torch.float64)
    weight, bias = (shares[:, :2048].view(2, 32, 64), shares[:, 2048:2080])
    weight[0, :8] = weight[1, 8:16] = weight[0, 16:] = 0.5
    bias[0, :8] = bias[1, 8:16] = bias[1, 16:] = 0.5
    views = []
    for view, xs, ys in zip(made.views, made.inputs, made.labels, strict=True):
        sent = [
            client_update(view.task, view.weights, x[None], y[None], LocalTraining())
            for x, y in zip(xs, ys, strict=True)
        ]
        update = (shares * torch.stack(sent)).sum(0)
        seen = Observation(update, shares.ne(0).any(0), weights=shares, clients=2)
        views.append(dataclasses.replace(view, observation=seen))
    found = get("analytic")(views, restarts=1, seed=0)
    assert made.recovered(found.inputs, 100) == 8


def test_analytic_is_exact_and_says_when_it_does_not_apply(problems: Maker) -> None:
    made = problems(10)
    found = get("analytic")(made.views, restarts=1, seed=0)
    assert torch.allclose(found.inputs, made.inputs, atol=1e-9)
    convolution = Task(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 10)), cross_entropy, 10
    )
    other = problems(1, task=convolution, shape=(1, 8, 8), warm_up=0)
    with pytest.raises(InvalidInput, match="starts with a linear layer"):
        get("analytic")(other.views, restarts=1, seed=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_total_variation_takes_any_number_of_channels(channels: int) -> None:
    ramp = torch.arange(4.0).expand(2, channels, 5, 4)
    assert total_variation(ramp) == pytest.approx(1.0)


def relu_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 1, 1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    )


def eval_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, 1, 1), nn.BatchNorm2d(6), nn.Sigmoid(), nn.Flatten(), nn.Linear(384, 10)
    ).eval()


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, activation="gelu", batch_first=True
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.encoder(x)
        return self.head(hidden.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "shape", "attack"),
    [
        (relu_cnn, (1, 8, 8), InvertingGradients(iterations=300)),
        (eval_batch_norm, (1, 8, 8), IDLG()),
        (Transformer, (8, 8), IDLG()),
        (lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), (64,), IDLG()),
    ],
    ids=["relu-cnn", "batch-norm-eval", "transformer", "relu-mlp"],
)
def test_many_kinds_of_models_are_recovered(
    problems: Maker, model: Callable[[], nn.Module], shape: tuple[int, ...], attack: Attack
) -> None:
    torch.manual_seed(0)
    task = Task(model(), cross_entropy, 10)
    made = problems(8, task=task, shape=shape, dtype=torch.float32, warm_up=0)
    found = attack(made.views, restarts=2, seed=0)
    assert made.recovered(found.inputs) >= 6


def test_regression_recovers_inputs_and_targets() -> None:
    task = Task(nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 1)), mse_loss, None)
    generator = torch.Generator().manual_seed(0)
    spec = InputSpec((12,), -1.0, 1.0)
    training = LocalTraining(batch=1)
    views, inputs, targets = [], [], []
    for _ in range(10):
        weights = torch.rand(task.layout.size, generator=generator, dtype=torch.float64) - 0.5
        x = 2 * torch.rand(1, 12, generator=generator, dtype=torch.float64) - 1
        y = torch.randn(1, 1, generator=generator, dtype=torch.float64)
        update = client_update(task, weights, x, y, training)
        views.append(View(task, weights, Observation(update), training, spec))
        inputs.append(x)
        targets.append(y)
    found = get("dlg")(views, restarts=3, seed=0)
    close = ((found.inputs - torch.stack(inputs)) ** 2).mean((1, 2)) < 1e-3
    assert int(close.sum()) >= 8
    assert found.labels is not None
    assert (found.labels - torch.stack(targets))[close].abs().max() < 0.05
