from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from tests.attacks.posterior.lining_up import beliefs, explained, small_task, small_view

from trilemma.attacks import ExactPosterior, View
from trilemma.attacks.posterior.exact import secret_participation
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task
from trilemma.observations import Noise

GAUSSIAN = Noise("gaussian", 0.05)
SOME = torch.arange(83) % 3 > 0
PLACES = torch.stack([(torch.arange(83) % 3 > 0), (torch.arange(83) % 4 > 1)]).double() / 2
EXACT = ExactPosterior()


def brute_force(view: View) -> np.ndarray:
    """Bayes with scipy's densities, one candidate after another."""
    noise, line_up = view.observation.noise, view.knowledge.line_up
    assert noise is not None
    assert line_up is not None
    known = view.observation.known
    read = slice(None) if known is None else known
    observed = view.observation.update[read].numpy()
    logs = np.array(
        [
            multivariate_normal.logpdf(observed, explained(view, j)[read].numpy(), noise.scale**2)
            for j in range(len(line_up))
        ]
    )
    posterior = np.exp(logs - logs.max())
    return np.asarray(posterior / posterior.sum())


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "single": {"training": LocalTraining(batch=1)},
    "weights": {"clients": 3, "slot": 4, "weights": (0.5, 0.2, 0.3)},
    "mask": {"clients": 2, "slot": 5, "known": SOME},
    "own places": {"clients": 2, "weights": PLACES},
    "clip": {"clip": 0.4, "clients": 2, "slot": 3},
    "fedavg": {
        "training": LocalTraining("fedavg", lr=0.5, steps=4, batch=2, records=4),
        "slot": 1,
    },
    "record clip": {"training": LocalTraining(batch=3, record_clip=0.5), "clients": 2},
    "regression": {"classes": None},
}


@pytest.mark.parametrize("how", CASES.values(), ids=CASES)
def test_it_is_brute_force_bayes(how: dict[str, Any]) -> None:
    task = small_task(how.get("classes", 3))
    views = [small_view(seed, noise=GAUSSIAN, task=task, **how)[0] for seed in range(4)]
    found = beliefs(EXACT, views).exp().numpy()
    for row, view in zip(found, views, strict=True):
        assert np.allclose(row, brute_force(view), atol=1e-9)
    assert found.max() > 2 / 7, "something is learnt"


def test_records_that_weigh_one_another_are_substituted() -> None:
    weighted = Task(
        small_task().model,
        torch.nn.CrossEntropyLoss(torch.tensor([0.2, 1.0, 3.0], dtype=torch.float64)),
        3,
    )
    view, _ = small_view(3, noise=GAUSSIAN, task=weighted)
    assert np.allclose(beliefs(EXACT, [view]).exp().numpy()[0], brute_force(view), atol=1e-9)


def test_blocks_of_candidates_and_units_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    task = small_task()
    how: dict[str, Any] = {"noise": GAUSSIAN, "clients": 2, "task": task}
    views = [small_view(seed, **how)[0] for seed in range(5)]
    clipped = [small_view(seed, clip=0.3, **how)[0] for seed in range(5)]
    whole = beliefs(EXACT, views), beliefs(EXACT, clipped)
    monkeypatch.setattr("trilemma.attacks.posterior.exact._HELD", 83 * 2)
    pieces = beliefs(EXACT, views), beliefs(EXACT, clipped)
    for one, other in zip(whole, pieces, strict=True):
        assert torch.allclose(one, other, atol=1e-9)


def test_without_noise_the_nearest_is_certain() -> None:
    view, tagged = small_view(1)
    found = EXACT([view], restarts=1, seed=0)
    belief = found.log_probability
    assert belief is not None
    assert belief[0].exp().tolist() == [float(j == tagged) for j in range(7)]
    assert view.knowledge.line_up is not None
    assert torch.equal(found.inputs[0, 0], view.knowledge.line_up.inputs[tagged])
    assert found.labels is not None
    assert int(found.labels[0, 0]) == int(view.knowledge.line_up.labels[tagged])


def test_uniform_noise_is_even_over_the_feasible() -> None:
    noise = Noise("uniform", 0.02)
    view, tagged = small_view(2, noise=noise)
    line_up = view.knowledge.line_up
    assert line_up is not None
    twice = torch.tensor([tagged, 0, tagged, 3])
    assert tagged not in (0, 3)
    doubled = dataclasses.replace(
        view, knowledge=dataclasses.replace(view.knowledge, line_up=line_up[twice])
    )
    feasible = [
        float((view.observation.update - explained(view, j)).abs().max()) <= noise.scale
        for j in twice.tolist()
    ]
    assert sum(feasible) == 2, "the sample tells them apart"
    expected = torch.tensor(feasible, dtype=torch.float64) / 2
    assert torch.allclose(beliefs(EXACT, [doubled])[0].exp(), expected)


def test_what_the_rung_needs_is_asked_for() -> None:
    view, _ = small_view(0)
    for missing, words in (
        ({"line_up": None}, "needs a line-up"),
        ({"rest": None}, "needs the other records"),
        ({"slot": 3}, "one of 0 … 2"),
        ({"rest": view.knowledge.line_up}, "7 records, but 3 are behind"),
    ):
        knowledge = dataclasses.replace(view.knowledge, **missing)
        with pytest.raises(InvalidInput, match=words):
            EXACT([dataclasses.replace(view, knowledge=knowledge)], restarts=1, seed=0)


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
def test_secret_participation_is_the_mixture(rate: float) -> None:
    generator = np.random.default_rng(5)
    shares, gap, deviation = generator.normal(size=(4, 6)), generator.normal(size=6), 0.8
    found = secret_participation(
        torch.tensor(gap), torch.tensor(shares), deviation=deviation, rate=rate
    )
    density = [
        (1 - rate) * multivariate_normal.pdf(gap, np.zeros(6), deviation**2)
        + rate * multivariate_normal.pdf(gap, share, deviation**2)
        for share in shares
    ]
    ratios = found.exp().numpy() / np.array(density)
    assert np.allclose(ratios, ratios[0])
    if rate == 0:
        assert torch.allclose(found, torch.zeros(4, dtype=torch.float64))


def test_secret_participation_needs_noise_and_a_rate() -> None:
    gap, shares = torch.zeros(3), torch.zeros(2, 3)
    for deviation, rate in ((0.0, 0.5), (math.inf, 0.5), (1.0, 1.5)):
        with pytest.raises(InvalidInput, match="rate in 0 … 1 and positive noise"):
            secret_participation(gap, shares, deviation=deviation, rate=rate)
