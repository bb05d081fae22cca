from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tests.game.made_scenario import make
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from trilemma.errors import InvalidInput
from trilemma.game import differentiability
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, client_update

WEIGHT = torch.tensor([1.0, 2.0, 5.0])


def balanced(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy whose classes weigh as they are rare in the batch."""
    counts = one_hot(labels, 3).sum(0)
    return cross_entropy(outputs, labels, weight=1 / (1.0 + counts).to(outputs))


def by_hand(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    shares = WEIGHT[labels].to(outputs)
    return (shares * cross_entropy(outputs, labels, reduction="none")).sum() / shares.sum()


def focal(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    losses = cross_entropy(outputs, labels, reduction="none")
    return (WEIGHT[labels].to(outputs) * (1 - torch.exp(-losses)) ** 2 * losses).mean()


REFUSED: dict[str, Any] = {
    "weights in a function": partial(cross_entropy, weight=WEIGHT),
    "weights by hand": by_hand,
    "balanced": balanced,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_loss_whose_soft_form_is_another_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="another for the same labels as one-hot rows") as found:
        make(loss=REFUSED[name], local_training=LocalTraining(batch=3))
    assert "use torch.nn.CrossEntropyLoss (with weight=..." in str(found.value)
    assert "\n" not in str(found.value)


def test_class_weights_cancel_in_a_batch_of_one() -> None:
    assert make(loss=by_hand, local_training=LocalTraining(batch=1)).couples_records


KNOWN: dict[str, Any] = {
    "weights": nn.CrossEntropyLoss(WEIGHT),
    "weights and smoothing": nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.1),
    "ignored": nn.CrossEntropyLoss(ignore_index=1),
    "focal": focal,
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_what_is_attacked_is_what_is_sent(name: str, algorithm: Any) -> None:
    """The update of one-hot rows, in double as under noise, is the client's own."""
    training = LocalTraining(algorithm, batch=4)
    scenario = make(loss=KNOWN[name], local_training=training)
    task, records = scenario.task, scenario.records[0]
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    inputs, labels = records.inputs[:4], torch.tensor([0, 2, 2, 1])
    rows = one_hot(labels, 3).double()
    model, start = task.model, [p.detach().clone() for p in task.model.parameters()]
    expected = torch.autograd.grad(KNOWN[name](model(inputs), labels), list(model.parameters()))
    sent = torch.cat([item.reshape(-1) for item in expected])
    if algorithm == "fedavg":
        sent = training.lr * sent
    explained = client_update(task, weights.double(), inputs.double(), rows, training)
    assert torch.allclose(explained.float(), sent, atol=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(start, model.parameters(), strict=True))


@pytest.mark.parametrize("settings", [{"record_clip": 1.0}, {"sampling": "poisson"}])
def test_single_records_gradients_need_a_mean_over_records(settings: dict[str, Any]) -> None:
    training = LocalTraining(batch=2, **settings)
    assert not make(loss=focal, local_training=training).couples_records
    with pytest.raises(InvalidInput, match="is not the mean of its records' losses; use such"):
        make(loss=nn.CrossEntropyLoss(WEIGHT), local_training=training)


def test_a_loss_may_look_at_values_but_not_at_the_labels_beside_it() -> None:
    def looks(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(outputs, labels) * (2.0 if labels.max().item() > 0 else 1.0)

    def large(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(outputs, labels) * (2.0 if outputs.max().item() > 1e6 else 1.0)

    with pytest.raises(InvalidInput, match="another for the same labels as one-hot rows"):
        make(loss=looks, local_training=LocalTraining(batch=3))
    assert make(loss=large, local_training=LocalTraining(batch=3)).task.way.kind == "looped"


class Tents(nn.Module):
    """A tent map again and again: kinks at every 2^-26, and a gradient between any two."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for _ in range(26):
            inputs = 1 - 2 * torch.relu(inputs) - 2 * torch.relu(-inputs)
        outputs: torch.Tensor = self.inner(inputs)
        return outputs


def test_kinks_close_together_are_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)  # with some weights the loss of so large outputs is flat
    model = Tents()
    assert make(model=model).classes == 3
    monkeypatch.setattr(differentiability, "_STEPS", (1e-6, 1e-8))
    with pytest.raises(InvalidInput, match="not twice differentiable"):
        make(model=model)


def test_workers_do_not_try_again_what_was_tried() -> None:
    def once(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(outputs.detach(), labels) + 0 * outputs.sum()

    with differentiability.checked_before():
        assert make(loss=once).classes == 3
    with pytest.raises(InvalidInput, match="does not change with the inputs"):
        make(loss=once)


def test_an_update_that_no_input_changes_is_refused() -> None:
    """Only the bias is trained, by the signs of what is predicted."""
    frozen = nn.Linear(5, 1)
    frozen.weight.requires_grad_(False)
    far = [(torch.rand(5), torch.full((1,), 9.0)) for _ in range(8)]
    with pytest.raises(InvalidInput, match="does not change with the inputs"):
        make(model=frozen, loss=nn.functional.l1_loss, clients=[far], test=far)


@pytest.mark.parametrize(
    ("labels", "loss", "last"),
    [
        ((-1, 1), nn.functional.mse_loss, nn.Identity()),
        ((-1,), lambda made, labels: nn.functional.mse_loss(made[:, 0], labels), nn.Identity()),
        ((-1,), nn.functional.mse_loss, nn.Flatten(0)),
    ],
)
def test_numbers_are_predicted_in_the_labels_own_shape(
    labels: tuple[int, ...], loss: Any, last: nn.Module
) -> None:
    regression(labels, loss, last)


def test_numbers_that_meet_every_label_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"returns \[n, 1\] for labels \[n\]"):
        regression((-1,), nn.functional.mse_loss, nn.Identity())


def regression(labels: tuple[int, ...], loss: Any, last: nn.Module) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(24, 5, generator=draw)
    pairs = [(inputs[k::2], inputs[k::2, 1].reshape(labels)) for k in range(2)]
    model = nn.Sequential(nn.Linear(5, 1), last)
    return Scenario(model, loss, pairs, pairs[0], LocalTraining(batch=4))


class Mixing(nn.Linear):
    """Multiplies by a matrix of single precision, or takes inputs of no other."""

    def __init__(self, how: str) -> None:
        super().__init__(5, 3)
        self.how = how
        self.register_buffer("held", torch.eye(5))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.how == "cast":
            return super().forward(inputs.float())
        matrix: Any = self.held if self.how == "held" else torch.eye(5)
        return super().forward(inputs @ matrix)


class Reading(nn.Module):
    """Tokens, whose updates need no derivative, times a matrix that is made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.last = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(self.token(words).mean(1) @ torch.ones(4, 4))
        return made


def test_what_is_of_one_precision_alone_is_told_with_the_way_out() -> None:
    assert make(model=Mixing("held")).classes == 3
    words = torch.arange(24).reshape(8, 3) % 9, torch.arange(8) % 3
    for changes in (
        {"model": Mixing("made")},
        {"model": Mixing("cast")},
        {"model": Reading(), "clients": [words], "test": words},
    ):
        with pytest.raises(InvalidInput, match="compute in double precision as well") as found:
            make(**changes)
        said = str(found.value)
        assert "test_differentiability.py, line" in said
        assert "register_buffer" in said
        assert "torch.ones(..., dtype=x.dtype)" in said
        assert "\n" not in said
