from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import grad_and_value, vmap
from torch.nn.functional import cross_entropy, log_softmax, one_hot

from trilemma.learning.losses import Loss, class_loss, differ, label_batches

WEIGHT = torch.tensor([0.2, 1.0, 3.0, 0.7])
LOSSES: dict[str, Loss] = {
    "function": cross_entropy,
    "plain": nn.CrossEntropyLoss(),
    "weights": nn.CrossEntropyLoss(WEIGHT),
    "smoothing": nn.CrossEntropyLoss(label_smoothing=0.2),
    "both": nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.2),
    "ignored": nn.CrossEntropyLoss(ignore_index=2),
    "all": nn.CrossEntropyLoss(WEIGHT, ignore_index=2, label_smoothing=0.2),
    "sum": nn.CrossEntropyLoss(WEIGHT, label_smoothing=0.2, reduction="sum"),
    "nll": nn.NLLLoss(),
    "weighted nll": nn.NLLLoss(WEIGHT, ignore_index=1),
}


def draw(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return log_softmax(2 * torch.randn(count, 4), 1), torch.randint(0, 4, (count,))


@pytest.mark.parametrize("name", LOSSES)
def test_one_hot_rows_give_torchs_own_loss_and_gradient(name: str) -> None:
    loss = LOSSES[name]
    for seed in range(5):
        outputs, labels = draw(7, seed)
        outputs.requires_grad_()
        expected = loss(outputs, labels)
        gradient = torch.autograd.grad(expected, outputs)[0]
        for targets in (labels, one_hot(labels, 4).float()):
            ours = class_loss(loss, outputs, targets)
            assert ours.item() == pytest.approx(expected.item(), rel=1e-5)
            assert torch.allclose(torch.autograd.grad(ours, outputs)[0], gradient, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in LOSSES if n != "sum"])
def test_a_soft_label_is_a_crowd_of_hard_ones(name: str) -> None:
    """Labels of (3, 0, 5, 2)/10 are ten copies of the record with 3, 0, 5 and 2 of each class."""
    loss = LOSSES[name]
    outputs, _ = draw(2)
    counts = [[3, 0, 5, 2], [1, 7, 0, 2]]
    copies = outputs.repeat_interleave(10, dim=0)
    labels = torch.tensor([c for row in counts for c in range(4) for _ in range(row[c])])
    ours = class_loss(loss, outputs, torch.tensor(counts) / 10)
    assert ours.item() == pytest.approx(loss(copies, labels).item(), rel=1e-5)


def test_class_weights_follow_the_outputs_precision() -> None:
    outputs, labels = draw(5)
    loss = nn.CrossEntropyLoss(WEIGHT)
    for targets in (labels, one_hot(labels, 4).double()):
        ours = class_loss(loss, outputs.double(), targets)
        assert ours.dtype == torch.float64
        assert ours.item() == pytest.approx(loss(outputs, labels).item(), rel=1e-5)


def focal(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logs = log_softmax(outputs, 1).gather(1, labels[:, None])[:, 0]
    return (-WEIGHT[labels] * (1 - logs.exp()) ** 2 * logs).mean()


def test_a_loss_of_ones_own_is_the_mean_over_classes_by_their_shares() -> None:
    outputs, labels = draw(6)
    ours = class_loss(focal, outputs, one_hot(labels, 4).float())
    assert ours.item() == pytest.approx(focal(outputs, labels).item(), rel=1e-6)
    soft = torch.softmax(torch.randn(6, 4), 1)
    parts = [
        soft[i, c] * focal(outputs[[i]], torch.tensor([c])) for i in range(6) for c in range(4)
    ]
    assert class_loss(focal, outputs, soft).item() == pytest.approx(sum(parts).item() / 6)  # type: ignore[union-attr]


@pytest.mark.parametrize(("classes", "size"), [(1, 3), (10, 4), (10, 8), (3, 8), (128, 5)])
def test_batches_hold_every_class_and_duplicates(classes: int, size: int) -> None:
    batches = list(label_batches(classes, size))
    assert all(batch.shape == (size,) for batch in batches)
    assert {int(label) for batch in batches for label in batch} == set(range(classes))
    assert len(set(batches[-1].tolist())) == 1


def test_of_very_many_classes_a_spread_is_tried() -> None:
    labels = {int(label) for batch in label_batches(5000, 8) for label in batch}
    assert len(labels) == 128
    assert min(labels) == 0
    assert max(labels) == 4999


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda x: (x * x).sum(), False),
        (lambda x: 1.01 * (x * x).sum(), True),
        (lambda x: (x * x).sum().detach() + 0 * x.sum(), True),  # the value alone agrees
    ],
)
def test_values_and_gradients_are_compared(other: Any, expected: bool) -> None:
    assert differ(lambda x: (x * x).sum(), other, torch.randn(5)) is expected


@pytest.mark.parametrize("loss", [cross_entropy, nn.CrossEntropyLoss()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cross_entropy_under_vmap_is_torchs_own_to_the_bit(loss: Loss, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    for records, classes, scale in ((1, 2, 1.0), (4, 10, 5.0), (33, 100, 60.0)):
        outputs = scale * torch.randn(6, records, classes, generator=generator, dtype=dtype)
        labels = torch.randint(0, classes, (6, records), generator=generator)

        def ours(made: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
            return class_loss(loss, made, told)

        found, theirs = (
            vmap(grad_and_value(value))(outputs, labels) for value in (ours, cross_entropy)
        )
        for one, other in zip(found, theirs, strict=True):
            assert torch.equal(one, other)
        alone = torch.stack([ours(*pair) for pair in zip(outputs, labels, strict=True)])
        torch.testing.assert_close(alone, theirs[1])


def test_other_forms_of_cross_entropy_are_left_to_torch() -> None:
    sequences, told = torch.randn(2, 4, 5), torch.randint(0, 4, (2, 5))
    assert class_loss(cross_entropy, sequences, told) == cross_entropy(sequences, told)
    one = torch.randn(4), torch.tensor(2)
    assert class_loss(cross_entropy, *one) == cross_entropy(*one)
    with pytest.raises(ValueError, match="batch"):
        class_loss(nn.CrossEntropyLoss(), torch.randn(5, 4), torch.tensor([0, 1, 2, 3]))
    sure = torch.tensor([[200.0, 0.0]])
    assert math.copysign(1, class_loss(cross_entropy, sure, torch.tensor([0])).item()) == 1
