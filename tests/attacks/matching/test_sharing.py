"""Rounds that share a record: hypotheses counted by hand, losses added up one by one."""

from __future__ import annotations

import torch

from trilemma.attacks.matching import Shared

LABELS = torch.tensor([[1, 2], [2, 3], [2, 2], [1, 2], [2, 1], [0, 0], [4, 5], [6, 7]])
TRAININGS = [7, 7, 7, 8, 8, 9, None, None]


def test_a_hypothesis_is_a_class_that_most_rounds_hold() -> None:
    made = Shared.of(TRAININGS, LABELS, most=64)
    assert made is not None
    assert made.training.tolist() == [0, 1, 1], "the third has one round, the others are of none"
    assert made.rows.tolist() == [[0, 1, 2], [3, 4, 0], [3, 4, 0]]
    assert made.slots.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert made.there.tolist() == [[True] * 3, [True, True, False], [True, True, False]]
    fewer = Shared.of(TRAININGS, LABELS, most=5)
    assert fewer is not None
    assert fewer.rows.tolist() == [[0, 1], [3, 4], [3, 4]], "two rounds of two records"
    assert Shared.of(TRAININGS, LABELS, most=3) is None
    assert Shared.of([1, 2, 3], LABELS[:3], most=64) is None
    assert Shared.of([1, 1], torch.tensor([[1, 2], [3, 4]]), most=64) is None, "no class twice"


def test_the_loss_is_that_of_all_rounds_and_the_shared_prior_counts_once() -> None:
    """Views whose loss is ½‖A z - b‖² + ½‖z‖², by hand, and the gradient by differences."""
    made = Shared.of(TRAININGS, LABELS, most=64)
    assert made is not None
    draw = torch.Generator().manual_seed(0)
    records, size = 2, 3
    a = torch.randn(len(LABELS), 4, records * size, generator=draw, dtype=torch.float64)
    b = torch.randn(len(LABELS), 4, generator=draw, dtype=torch.float64)

    def alone(rows):  # type: ignore[no-untyped-def]
        def evaluate(z):  # type: ignore[no-untyped-def]
            gap = torch.einsum("uij,uj->ui", a[rows], z) - b[rows]
            loss = 0.5 * gap.square().sum(1) + 0.5 * z.square().sum(1)
            return loss, torch.einsum("uij,ui->uj", a[rows], gap) + z

        return evaluate

    chosen = torch.tensor([2, 0])
    evaluate = made.bind(alone, records)(chosen)
    points = torch.randn(2, (1 + 3 * records) * size, generator=draw, dtype=torch.float64)
    loss, gradient = evaluate(points)
    for place, hypothesis in enumerate(chosen.tolist()):
        shared, *own = points[place].reshape(-1, size)
        expected = 0.5 * shared @ shared
        for turn in range(int(made.there[hypothesis].sum())):
            view, slot = int(made.rows[hypothesis, turn]), int(made.slots[hypothesis, turn])
            z = [own[turn * records + each] for each in range(records)]
            expected = expected + 0.5 * z[1 - slot] @ z[1 - slot]
            z[slot] = shared
            expected = expected + 0.5 * (a[view] @ torch.cat(z) - b[view]).square().sum()
        assert torch.allclose(loss[place], expected)
    for at in range(points.shape[1]):
        step = torch.zeros_like(points)
        step[:, at] = 1e-6
        slope = (evaluate(points + step)[0] - evaluate(points - step)[0]) / 2e-6
        assert torch.allclose(slope, gradient[:, at], atol=1e-6)


def test_the_best_hypothesis_of_each_training_is_that_of_least_loss() -> None:
    made = Shared.of(TRAININGS, LABELS, most=64)
    assert made is not None
    assert made.best(torch.tensor([5.0, 2.0, 1.0])) == [0, 2]
    assert made.best(torch.tensor([torch.inf, 2.0, 3.0])) == [1]
