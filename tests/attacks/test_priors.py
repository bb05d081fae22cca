"""The Gaussian that public records teach, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma.attacks import View
from trilemma.attacks.priors import Prior, Sorted, shrinkage
from trilemma.learning import LocalTraining, Task
from trilemma.observations import Observation
from trilemma.records.range import InputSpec
from trilemma.records.records import Records


def view(size: int, classes: int | None, *, low: float = 0.0, high: float = 1.0) -> View:
    loss = mse_loss if classes is None else cross_entropy
    task = Task(nn.Linear(size, classes or 2), loss, classes)
    zeros = torch.zeros(task.layout.size)
    return View(task, zeros, Observation(zeros), LocalTraining(), InputSpec((size,), low, high))


def records(count: int, size: int, classes: int) -> Records:
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    mixing = torch.randn(size, size, generator=draw).double() / size**0.5
    noise = torch.randn(count, size, generator=draw).double() @ mixing
    return Records(0.5 + 0.1 * (noise + labels[:, None]), labels)


def covariances(prior: Prior) -> torch.Tensor:
    """L_c L_cᵀ [C, d, d], from what the prior makes of unit vectors."""
    made = []
    for label in range(prior.classes):
        by_class = Sorted.of(torch.full((prior.size,), label), prior.classes)
        unit = torch.eye(prior.size).to(prior.mean)
        columns = prior.records(unit, by_class) - prior.mean[label]
        made.append(columns.T @ columns)
    return torch.stack(made)


def test_a_class_has_its_mean_and_a_covariance_between_its_own_and_that_of_all() -> None:
    public = records(90, 5, 3)
    prior = Prior.of(public, view(5, 3))
    x, y = public.inputs.numpy(), public.labels.numpy()
    within = sum((np.sum(y == c) - 1) * np.cov(x[y == c].T) for c in range(3)) / (90 - 3)
    for label, found in enumerate(covariances(prior)):
        own = x[y == label]
        assert np.allclose(prior.mean[label], own.mean(0))
        expected = 0.5 * np.cov(own.T) + 0.5 * within + 1e-3 * np.eye(5)
        assert np.allclose(found, expected, atol=1e-12)


def test_inputs_are_counted_in_units_of_their_range() -> None:
    public = records(60, 4, 2)
    plain = Prior.of(public, view(4, 2))
    shifted = Records(10 * public.inputs - 5, public.labels)
    wide = Prior.of(shifted, view(4, 2, low=-5.0, high=5.0))
    assert torch.allclose(plain.mean, wide.mean)
    assert torch.allclose(plain.factor, wide.factor)


def test_a_class_that_is_not_public_looks_like_all_of_them() -> None:
    public = records(60, 4, 2)
    prior = Prior.of(public, view(4, 3))
    assert torch.allclose(prior.mean[2], public.inputs.mean(0))
    assert torch.isfinite(prior.factor).all()


@pytest.mark.parametrize("size", [6, 300])
def test_pulling_back_is_the_adjoint_of_drawing(size: int) -> None:
    prior = Prior.of(records(80, size, 4), view(size, 4))
    assert (prior.basis is None) == (size == 6)
    draw = torch.Generator().manual_seed(2)
    labels = torch.randint(0, 4, (3, 7), generator=draw)
    by_class = Sorted.of(labels, 4)
    z, g = (torch.randn(3, 7, size, generator=draw).double() for _ in range(2))
    drawn = prior.records(z, by_class) - prior.mean[labels]
    assert torch.allclose((g * drawn).sum(), (prior.pulled_back(g, by_class) * z).sum())


def test_large_records_keep_their_strongest_directions_and_reach_all_others() -> None:
    public = records(600, 300, 2)
    prior = Prior.of(public, view(300, 2))
    assert prior.basis is not None
    assert prior.basis.shape == (300, 128)
    x, y = public.inputs.numpy(), public.labels.numpy()
    apart = np.concatenate([x[y == c] - x[y == c].mean(0) for c in range(2)])
    values = np.linalg.eigvalsh(apart.T @ apart / 600)
    outside = values[: 300 - 128].mean() + 1e-3
    found = np.linalg.eigvalsh(covariances(prior)[0].numpy())
    assert np.sum(np.isclose(found, outside, rtol=1e-6)) >= 300 - 128
    kept = apart @ prior.basis.numpy()
    assert (kept**2).sum() / 600 == pytest.approx(values[-128:].sum())


def test_targets_of_a_regression_vary_with_the_inputs() -> None:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.rand(500, 3, generator=draw).double()
    targets = torch.stack((4 * inputs[:, 0] - 7, torch.randn(500, generator=draw)), 1)
    prior = Prior.of(Records(inputs, targets), view(3, None))
    assert (prior.classes, prior.size) == (1, 5)
    z = torch.randn(2000, 5, generator=draw).double()
    drawn = prior.records(z, Sorted.of(torch.zeros(2000, dtype=torch.long), 1))
    told = prior.shift + prior.scale * drawn[:, 3:]
    correlation = np.corrcoef(np.column_stack((drawn[:, :3], told)).T)
    assert correlation[0, 3] > 0.98
    assert abs(correlation[0, 4]) < 0.1
    assert told[:, 0].mean() == pytest.approx(-5.0, abs=0.1)


def test_few_records_of_a_class_borrow_more() -> None:
    weights = [shrinkage(count) for count in (1, 2, 10, 30, 100, 300, 10_000)]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == 1.0
    assert weights[3] == pytest.approx(0.5)
    assert weights[5] == pytest.approx(0.1)


@pytest.mark.parametrize("size", [5, 300])
def test_guesses_are_pushed_by_the_variance_that_is_missing(size: int) -> None:
    """Beside as much noise as records, half of what is seen is the likeliest record."""
    prior = Prior.of(records(400, size, 3), view(size, 3))
    draw = torch.Generator().manual_seed(5)
    labels = torch.randint(0, 3, (2, 3000), generator=draw)
    mean, by_class = prior.mean[labels], Sorted.of(labels, 3)

    def drawn() -> torch.Tensor:
        z = torch.randn(2, 3000, size, generator=draw).double()
        return prior.records(z, by_class) - mean

    own, noise = drawn(), drawn()
    pushed = prior.pushed(mean + (own + noise) / 2, labels)
    assert torch.allclose(pushed, mean + own + noise, atol=0.08)
    assert torch.allclose(prior.pushed(mean + own, labels), mean + own, atol=0.08)
    tiny = prior.pushed(mean + 0.01 * own, labels)
    assert torch.allclose(tiny, mean + 0.03 * own, atol=1e-9), "three times at most"


@pytest.mark.parametrize("size", [5, 300])
def test_a_record_is_of_the_class_that_makes_it_likely(size: int) -> None:
    """Densities written out by SciPy, of small records and of large ones."""
    public = records(90, size, 3)
    prior = Prior.of(public, view(size, 3))
    x = public.inputs[:9] + 0.02
    distributions = [
        multivariate_normal(mean.numpy(), own.numpy(), allow_singular=False)
        for mean, own in zip(prior.mean, covariances(prior), strict=True)
    ]
    density = np.stack([distribution.logpdf(x.numpy()) for distribution in distributions], 1)
    expected = density - logsumexp(density, 1, keepdims=True)
    assert np.allclose(prior.memberships(x), expected, atol=1e-5)
    assert len(set(prior.memberships(x).argmax(1).tolist())) > 1


def test_all_records_of_a_regression_are_of_one_class() -> None:
    public = Records(torch.rand(20, 4).double(), torch.rand(20, 2).double())
    prior = Prior.of(public, view(4, None))
    assert prior.memberships(public.inputs).tolist() == [[0.0]] * 20
