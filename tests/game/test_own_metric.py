"""A metric of the user's own, the constant answer beside it, and where nothing was learnt."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss, mse_loss

from trilemma import LocalTraining, Metric, Scenario, tune
from trilemma.errors import InvalidInput
from trilemma.game.baseline import constant_metric
from trilemma.reporting.words.answer import answer, cost_facts

ONE = LocalTraining(batch=4, lr=0.2)


def linear(
    loss: object, labels: torch.Tensor, outputs: int = 1, metric: object = None
) -> Scenario:
    x = torch.rand(len(labels), 3, generator=torch.Generator().manual_seed(0))
    return Scenario(
        nn.Linear(3, outputs),
        loss,  # type: ignore[arg-type]
        [(x, labels)] * 2,
        (x, labels),
        ONE,
        metric=metric,  # type: ignore[arg-type]
        rounds=3,
    )


def test_the_constant_answer_is_the_majority_the_mean_and_the_median() -> None:
    y = torch.from_numpy(norm.rvs(3.0, 2.0, size=(301, 1), random_state=0)).float()
    classes = torch.tensor([0] * 50 + [1] * 151 + [2] * 100)
    assert constant_metric(linear(cross_entropy, classes, 3)) == pytest.approx(151 / 301)
    assert constant_metric(linear(mse_loss, y)) == pytest.approx(
        -float(np.var(y.numpy())), rel=1e-3
    )
    median = float(np.abs(y.numpy() - np.median(y.numpy())).mean())
    found = constant_metric(linear(l1_loss, y))
    assert found is None or found == pytest.approx(-median, rel=1e-2)


class Table(nn.Module):
    """Scores of 5 classes for each of 4 tokens, behind them or before."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.table, self.head, self.first = nn.Embedding(6, 4), nn.Linear(4, 5), first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.table(x))
        return scores.transpose(1, 2) if self.first else scores


def behind(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return cross_entropy(scores.view(-1, 5), tokens.view(-1))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("at_once", [1, 20 * 64])  # record by record, and in four parts
def test_per_token_classes_have_the_entropy_of_all_places(
    first: bool, padding: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilemma.game.baseline._AT_ONCE", at_once)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, (200, 4), generator=draw)
    labels = tokens.clone()
    if padding:
        labels[:, 3] = -100  # what cross_entropy leaves out
    loss = cross_entropy if first else behind
    scenario = Scenario(Table(first=first), loss, [(tokens, labels)], (tokens, labels), ONE)
    shares = torch.bincount(labels[labels >= 0], minlength=5) / (labels >= 0).sum()
    entropy = -(shares * shares.log()).sum()
    assert constant_metric(scenario) == pytest.approx(-float(entropy), rel=1e-3)


def test_a_place_and_a_class_of_one_size_are_told_apart() -> None:
    """Labels are their own place: one constant answer knows nothing of them."""
    places = torch.arange(5).repeat(40, 1)
    for first, loss in ((True, cross_entropy), (False, behind)):
        scenario = Scenario(Table(first=first), loss, [(places, places)], (places, places), ONE)
        assert constant_metric(scenario) == pytest.approx(-math.log(5), rel=1e-3)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_sorted_labels_of_any_scale_have_their_own_variance(scale: float) -> None:
    y = torch.linspace(0, 10, 3000)[:, None]
    found = constant_metric(linear(lambda o, t: mse_loss(o, t) * scale, y))
    assert found == pytest.approx(-scale * float(np.var(y.numpy())), rel=1e-3)


def test_a_loss_that_is_flat_far_away_and_class_weights() -> None:
    y = norm.rvs(4.0, 0.5, size=(300, 1), random_state=1)
    near = minimize_scalar(
        lambda c: float((1 - np.exp(-((c - y) ** 2) / 2)).mean()), bounds=(3, 5), method="bounded"
    ).fun
    welsch = linear(lambda o, t: (1 - torch.exp(-((o - t) ** 2) / 2)).mean(), torch.tensor(y))
    assert constant_metric(welsch) == pytest.approx(-near, rel=1e-2)
    labels = torch.tensor([0] * 60 + [1] * 240)
    loss = nn.CrossEntropyLoss(weight=torch.tensor([4.0, 1.0]))
    weighted = linear(loss, labels, 2, Metric(loss, better="lower"))
    assert constant_metric(weighted) == pytest.approx(-math.log(2), rel=1e-3)


@pytest.mark.parametrize("error", [AssertionError, KeyError, OverflowError, RuntimeError])
def test_a_metric_that_takes_no_constant_has_none(error: type[Exception]) -> None:
    def correlation(outputs: torch.Tensor, labels: torch.Tensor) -> float:
        if outputs.max() == outputs.min():
            raise error
        return 0.5

    assert constant_metric(linear(mse_loss, torch.rand(40, 1), 1, correlation)) is None


def test_log_probabilities_have_no_constant_answer() -> None:
    """Their loss has no least value over all outputs."""

    def loss(outputs: torch.Tensor, chances: torch.Tensor) -> torch.Tensor:
        return -(outputs * chances).sum(1).mean()

    chances = torch.full((40, 2), 0.5)
    assert constant_metric(linear(loss, chances, 2)) is None


def perplexity(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    return math.exp(float(cross_entropy(outputs, labels)))


def test_a_metric_is_checked_and_named() -> None:
    labels = torch.arange(40) % 2
    assert linear(cross_entropy, labels, 2, perplexity).metric == Metric(perplexity)
    metric = Metric(perplexity, better="lower")
    assert metric.shown == "minus perplexity"
    scores = torch.zeros(40, 2)
    assert metric(scores, labels) == pytest.approx(-2.0)
    with pytest.raises(InvalidInput, match="better must be 'higher' or 'lower', got 'more'"):
        Metric(perplexity, better="more")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="metric must be a function"):
        Metric("accuracy")  # type: ignore[arg-type]


def test_a_verdict_shows_the_metric_its_constant_and_that_nothing_was_learnt() -> None:
    labels = torch.randint(2, (60,), generator=torch.Generator().manual_seed(3))
    draw = torch.Generator().manual_seed(4)
    own = torch.rand(60, 3, generator=draw), torch.randint(2, (60,), generator=draw)
    test = torch.rand(60, 3, generator=draw), labels
    metric = Metric(perplexity, better="lower")
    scenario = Scenario(nn.Linear(3, 2), cross_entropy, [own], test, ONE, metric=metric, rounds=3)
    verdict = tune(
        scenario, knows="anyone", preset="quick", families="randomization", seeds=2, quiet=True
    )
    assert verdict.federation.metric == "minus perplexity"
    shares = torch.bincount(labels) / 60
    constant = -math.exp(-float((shares * shares.log()).sum()))
    assert verdict.federation.baseline == pytest.approx(constant, rel=1e-3)
    assert "minus perplexity" in dict(answer(verdict).facts)
    assert "constant answer" in dict(cost_facts(verdict))
    assert any(limit.startswith("Nothing was learnt") for limit in verdict.limits)
