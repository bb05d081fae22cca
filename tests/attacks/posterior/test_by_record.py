"""Rounds of unlike and of secret batches: Bayes' rule by brute force, record by record."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import norm
from tests.game.playing.small_observer import observer, scenario

from trilemma.attacks import View, get
from trilemma.attacks.posterior.by_record import secret_participation
from trilemma.errors import InvalidInput
from trilemma.learning import client_update

CLIPPED: dict[str, Any] = {"sampling": "poisson", "record_clip": 0.4}


def seen_views(spec: str, *, secret: bool, games: int = 3, **training: Any) -> list[View]:
    made = scenario(**training)
    who: dict[str, Any] = {"participation": "secret"} if secret else {}
    seen = observer(made, spec, rounds=12, **who)
    drawn = [seen.arena.draw(number, 3) for number in range(games)]
    return [view for views in seen.views(drawn) for view in views]


def expected(view: View, candidate: int | None) -> torch.Tensor:
    """What is observed without noise, the candidate in the sought record's place or nobody."""
    known, shown = view.knowledge, view.observation
    assert known.rest is not None
    assert known.candidate_set is not None
    inputs, labels = known.rest.inputs.double().clone(), known.rest.labels.clone()
    there = torch.ones(len(inputs)) if known.present is None else known.present.double().clone()
    there[known.slot] = float(candidate is not None)
    if candidate is not None:
        inputs[known.slot] = known.candidate_set.inputs[candidate].double()
        labels[known.slot] = known.candidate_set.labels[candidate]
    size = len(inputs) // shown.clients
    weights = shown.weights or (1 / shown.clients,) * shown.clients
    total = torch.zeros_like(view.weights, dtype=torch.float64)
    for client in range(shown.clients):
        rows = slice(client * size, (client + 1) * size)
        total += weights[client] * client_update(
            view.task,
            view.weights.double(),
            inputs[rows],
            labels[rows],
            view.local_training,
            present=there[rows],
        )
    return total


def log_density(view: View, mean: torch.Tensor) -> float:
    assert view.observation.noise is not None
    seen = view.observation.update.double().numpy()
    return float(np.sum(norm.logpdf(seen, mean.numpy(), view.observation.noise.scale)))


def by_brute_force(view: View) -> torch.Tensor:
    rate, known = view.knowledge.rate, view.knowledge
    assert known.candidate_set is not None
    scores = []
    for row in range(len(known.candidate_set)):
        present = log_density(view, expected(view, row))
        if rate is None:
            scores.append(present)
        else:
            absent = log_density(view, expected(view, None))
            scores.append(float(logsumexp([absent, present], b=[1 - rate, rate])))
    return torch.log_softmax(torch.tensor(scores, dtype=torch.float64), 0)


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("training", [CLIPPED, {"sampling": "poisson"}])
@pytest.mark.parametrize("carrier", ["", "+secret-sharing"])
def test_the_posterior_is_bayes_rule(carrier: str, training: dict[str, Any], secret: bool) -> None:
    views = seen_views(f"randomization:variance=0.003{carrier}", secret=secret, **training)
    if secret:
        assert len(views) == 3 * 12, "every round is attacked"
        assert {view.knowledge.rate for view in views} <= {4 / 80, 4 / 100, 4 / 120}
    else:
        assert 0 < len(views) < 3 * 12
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    for view, row in zip(views, found, strict=True):
        assert torch.allclose(row.double(), by_brute_force(view), atol=2e-3)


@pytest.mark.parametrize("secret", [False, True])
def test_a_sum_of_the_others_that_is_known_changes_no_belief(secret: bool) -> None:
    spec = "randomization:variance=0.003+secret-sharing"
    views = seen_views(spec, secret=secret, **CLIPPED)
    assert all(view.knowledge.others is not None for view in views)
    bare = [replace(view, knowledge=replace(view.knowledge, others=None)) for view in views]
    quick, slow = (get("exact-posterior")(own, restarts=1, seed=0) for own in (views, bare))
    assert quick.log_probability is not None
    assert slow.log_probability is not None
    assert torch.allclose(quick.log_probability, slow.log_probability, atol=2e-3)
    assert float(quick.log_probability.max(1).values.min()) < -0.1, "noise leaves some doubt"


def test_a_round_without_the_record_speaks_for_nobody_under_little_noise() -> None:
    views = seen_views("randomization:variance=1e-6", secret=True, **CLIPPED)
    found = get("exact-posterior")(views, restarts=1, seed=0).log_probability
    assert found is not None
    size = found.shape[1]
    present = [
        view.knowledge.present is None or bool(view.knowledge.present[view.knowledge.slot])
        for view in views
    ]
    assert any(present)
    for held, row in zip(present, found.exp(), strict=True):
        if held:
            assert row.max() > 0.99, "the record gives itself away"
        else:
            assert torch.allclose(row, torch.full_like(row, 1 / size), atol=1e-6)


def test_secret_participation_between_its_ends() -> None:
    draw = torch.Generator().manual_seed(0)
    gap, shares = torch.randn(5, generator=draw), torch.randn(3, 5, generator=draw)
    sure = secret_participation(gap, shares, deviation=0.7, rate=1.0)
    direct = np.asarray(norm.logpdf(gap.numpy(), shares.numpy(), 0.7)).sum(1)
    assert sure.numpy() - sure[0].item() == pytest.approx(direct - direct[0], abs=1e-5)
    never = secret_participation(gap, shares, deviation=0.7, rate=0.0)
    assert never.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InvalidInput, match=r"rate in 0 … 1 and positive noise, got rate 2"):
        secret_participation(gap, shares, deviation=0.7, rate=2.0)


def test_that_a_record_is_used_at_all_changes_no_pick() -> None:
    """Given K ≥ 1, over all patterns of rounds; the product of single rounds picks alike."""
    draw = np.random.default_rng(8)
    deviation, rate, rounds, candidates = 0.8, 0.15, 4, 6
    for _ in range(200):
        shares = draw.normal(size=(rounds, candidates, 3))
        gaps = deviation * draw.normal(size=(rounds, 3))
        gaps[0] += shares[0, 2]
        given = np.full(candidates, -np.inf)
        for pattern in product((False, True), repeat=rounds):
            held = np.array(pattern)
            means = np.where(held[:, None, None], shares, 0.0)
            distribution = np.asarray(norm.logpdf(gaps[:, None], means, deviation)).sum((0, 2))
            distribution = (
                distribution + held.sum() * np.log(rate) + (~held).sum() * np.log1p(-rate)
            )
            if held.any():
                given = np.logaddexp(given, distribution)
        alone = [
            secret_participation(
                *map(torch.from_numpy, pair), deviation=deviation, rate=rate
            ).numpy()
            for pair in zip(gaps, shares, strict=True)
        ]
        total = np.sum(alone, axis=0)
        assert total.argmax() == given.argmax()
        used = np.log(np.exp(total) - (1 - rate) ** rounds)
        assert used - used[0] == pytest.approx(given - given[0], abs=1e-6)


def test_what_cannot_be_added_up_record_by_record_is_refused() -> None:
    (view, *_) = seen_views("randomization:variance=0.003", secret=True, **CLIPPED)
    attack = get("exact-posterior")
    clipped = replace(view, observation=replace(view.observation, clip=1.0))
    with pytest.raises(InvalidInput, match="no clip of whole updates"):
        attack([clipped], restarts=1, seed=0)
    bare = replace(view, observation=replace(view.observation, noise=None))
    with pytest.raises(InvalidInput, match="under Gaussian noise"):
        attack([bare], restarts=1, seed=0)
    lost = replace(view, knowledge=replace(view.knowledge, slot=10_000, others=None))
    with pytest.raises(InvalidInput, match=r"got .* records and slot 10000"):
        attack([lost], restarts=1, seed=0)


def test_only_who_knows_the_rest_does_without_participation() -> None:
    with pytest.raises(InvalidInput, match="attack with knows='rest'"):
        observer(scenario(**CLIPPED), knows="candidates", rounds=12, participation="secret")
