"""The law of the rest against sums of Gaussian records that obey it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import multinomial, multivariate_normal
from torch.nn.functional import one_hot

from trilemma.attacks.posterior import rest_distribution
from trilemma.attacks.posterior.inner_products import Table, tabulate
from trilemma.attacks.posterior.rest_distribution import Message, by_classes, few_counts, overall

M, P, N, C, REST = 9, 30, 4, 3, 3
LABELS = torch.arange(P) % C
SHARE, NOISE, JITTER = 0.25, 0.02, 0.05


def numbers(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


PEOPLE = numbers(P, M, seed=0) + 2 * numbers(C, M, seed=1)[LABELS]
MEAN = PEOPLE.mean(0)
GUESSES, OBSERVED = numbers(N, M, seed=2), numbers(M, seed=3)


def table() -> Table:
    """Anchors: the gap to the mean batch, and the mean."""
    anchors = torch.stack([OBSERVED - MEAN, MEAN])[None]
    rows, guesses = (PEOPLE - MEAN)[None], (GUESSES - MEAN)[None]
    return tabulate(
        (lambda a, b: rows[:, a:b], P),
        (lambda a, b: guesses[:, a:b], N),
        anchors,
        torch.tensor([float(M)], dtype=torch.float64),
    )


def message(*, jitter: float | None = None, factor: float = 1.0) -> Message:
    one = torch.ones(1, N, dtype=torch.float64)
    return Message(
        torch.stack([one, (1 - factor) * one], 1),
        factor * SHARE * one,
        one[:, 0] * REST * (factor * SHARE) ** 2,
        one[:, 0] * NOISE,
        None if jitter is None else one[:, 0] * jitter,
        torch.tensor([[0.0, 1.0]], dtype=torch.float64),
        SHARE * one[:, 0],
    )


def same_up_to_a_constant(found: torch.Tensor, expected: list[float]) -> None:
    gaps = found[0].numpy() - np.array(expected)
    assert np.allclose(gaps, gaps[0], atol=1e-7)
    assert np.ptp(found[0].numpy()) > 0.1, "candidates differ"


def test_overall_is_one_gaussian() -> None:
    covariance = REST * SHARE**2 * np.cov(PEOPLE.numpy().T) + NOISE * np.eye(M)
    expected = [
        multivariate_normal.logpdf(OBSERVED, SHARE * (g + REST * MEAN), covariance)
        for g in GUESSES
    ]
    same_up_to_a_constant(overall(table(), message()), expected)


def test_a_clipped_message_is_uncertain_along_itself() -> None:
    factor = 0.7
    expected = []
    for g in GUESSES:
        sent = (SHARE * (g + REST * MEAN)).numpy()
        covariance = REST * (factor * SHARE) ** 2 * np.cov(PEOPLE.numpy().T)
        covariance = covariance + NOISE * np.eye(M) + JITTER * np.outer(sent, sent)
        expected.append(multivariate_normal.logpdf(OBSERVED, factor * sent, covariance))
    same_up_to_a_constant(overall(table(), message(jitter=JITTER, factor=factor)), expected)


@pytest.mark.parametrize("jitter", [None, JITTER])
def test_classes_are_summed_out(monkeypatch: pytest.MonkeyPatch, jitter: float | None) -> None:
    """All ways to spread the rest over the classes, by scipy."""
    monkeypatch.setattr(rest_distribution, "_REFINED", 100)
    trust = (P / C) / (P / C + 3.0)
    means = [PEOPLE[c == LABELS].mean(0).numpy() for c in range(C)]
    own = [np.cov(PEOPLE[c == LABELS].numpy().T) for c in range(C)]
    common = sum((P / C - 1) * item for item in own) / (P - C)
    distributions = []
    for counts in itertools.product(range(REST + 1), repeat=C):
        if sum(counts) == REST:
            prior = multinomial.logpmf(counts, REST, [1 / C] * C)
            mean = sum(n * item for n, item in zip(counts, means, strict=True))
            mixed = [trust * item + (1 - trust) * common for item in own]
            covariance = sum(n * item for n, item in zip(counts, mixed, strict=True))
            distributions.append((prior, mean, SHARE**2 * covariance + NOISE * np.eye(M)))
    assert len(distributions) == math.comb(REST + C - 1, REST)
    expected = []
    for g in GUESSES.numpy():
        logs = []
        for prior, mean, covariance in distributions:
            sent = SHARE * (g + mean)
            wide = covariance + (jitter or 0) * np.outer(sent, sent)
            logs.append(prior + multivariate_normal.logpdf(OBSERVED, sent, wide))
        expected.append(float(np.logaddexp.reduce(logs)))
    member = one_hot(LABELS, C).double()[None]
    found = by_classes(table(), message(jitter=jitter), member, REST)
    same_up_to_a_constant(found, expected)


def test_few_ways_are_tried_one_by_one() -> None:
    assert few_counts(3, 10)
    assert few_counts(7, 10)
    assert not few_counts(39, 10)
