"""The certificate against its own bound, against brute force, and against attackers that know."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest
from scipy.stats import norm
from trilemma.tuning.certificate.certify import best_clip, certify, clip_norms, noise_for

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.beliefs.intervals import Interval
from trilemma.errors import InvalidInput
from trilemma.estimation.tasks import TrainTask
from trilemma.federation.training import Round
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.choosing.families import Setting
from trilemma.work.executors import Task
from trilemma.work.replay import Ask

SETTING = Setting(
    parameters=50,
    clients=5,
    total_weight=100,
    equal_weights=True,
    largest=0.5,
    norms=(1.0, 2.0, 3.0),
    noise={"message": 1e-3, "sum": 1e-3},
    predicted={"message": True, "sum": True},
    unknowns={"message": 10, "sum": 40},
)


def brute_force(kappa: Interval, ratio: float) -> float:
    """Leakage at the bound, by scipy's own normal law on a grid of its own."""
    grid = np.linspace(kappa.low, kappa.high, 997)
    return max(bernoulli_leakage(float(norm.cdf(norm.ppf(k) + ratio)), float(k)) for k in grid)


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("kappa", [Interval(0.01, 0.01), Interval(0.001, 0.3)])
def test_the_noise_is_enough_and_hardly_more(budget: float, kappa: Interval) -> None:
    noise = noise_for(budget, kappa, clip=2.0, rounds=4)
    ratio = 2.0 * math.sqrt(4) / noise
    assert brute_force(kappa, ratio) <= budget * (1 + 1e-6)
    assert brute_force(kappa, ratio * 1.01) > budget


def test_the_median_norm_clips_and_the_dp_figure_belongs_to_it() -> None:
    found = certify(SETTING, 0.3, Interval(0.001, 0.05), records=100)
    protection = parse_protection(found.protection)
    assert found.clip == 2.0
    assert protection.transforms[0].clip == 2.0
    assert found.leakage <= 0.3
    assert found.privacy.noise_multiplier == pytest.approx(found.noise / 2.0)
    assert found.privacy.delta == pytest.approx(0.001)


def test_noise_of_a_sum_is_shared_and_a_curious_client_takes_its_own_out() -> None:
    kappa = Interval(0.001, 0.05)
    alone = certify(SETTING, 0.3, kappa, records=100)
    shares = {
        who: parse_protection(
            certify(
                SETTING, 0.3, kappa, records=100, adversary=who, transport="secret-sharing"
            ).protection
        )
        .transforms[0]
        .variance  # type: ignore[attr-defined]
        for who in Adversary
    }
    assert shares[Adversary.SERVER] == pytest.approx(alone.noise**2 / 5)
    assert shares[Adversary.CLIENT] == pytest.approx(alone.noise**2 / 4)


def test_no_attacker_beats_the_bound() -> None:
    """Bayes-optimal choice among N equally likely unit vectors: κ = 1/N."""
    draw = np.random.default_rng(0)
    for count, ratio in ((10, 1.0), (100, 2.0)):
        updates = draw.normal(size=(count, 400))
        updates /= np.linalg.norm(updates, axis=1, keepdims=True)
        seen = updates[np.arange(2000) % count] + draw.normal(size=(2000, 400)) / ratio
        hits = int(((seen @ updates.T).argmax(axis=1) == np.arange(2000) % count).sum())
        bound = float(norm.cdf(norm.ppf(1 / count) + ratio))
        assert hits / 2000 <= bound + 3 * math.sqrt(bound * (1 - bound) / 2000)


def test_a_kappa_outside_its_domain_is_refused() -> None:
    with pytest.raises(InvalidInput, match="kappa"):
        certify(SETTING, 0.3, Interval(0.1, 1.0), records=100)


def test_a_clip_that_is_no_norm_is_refused() -> None:
    for clip in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidInput, match="clip"):
            certify(SETTING, 0.3, Interval(0.01, 0.05), records=100, clip=clip)


def training(metrics: dict[str, list[float | None]]) -> Ask:
    """Answers as trainings would, from the metric of each protection by seed."""

    def ask(tasks: Sequence[Task]) -> list[bytes]:
        made = []
        for task in tasks:
            assert isinstance(task, TrainTask)
            metric = metrics[task.protection][task.seed - 7]
            last = Round(3, (0,), loss=0.0, metric=metric)
            found = {"rounds": [asdict(last)], "client_metrics": [metric], "one_by_one": None}
            found |= {"scores": None, "client_scores": [None]}
            made.append(json.dumps({"diverged": "why"} if metric is None else found).encode())
        return made

    return ask


def test_the_clip_of_the_best_metric_is_taken() -> None:
    norms = clip_norms(SETTING)
    assert min(norms) == pytest.approx(2.0 / 8), "far below the median too"
    assert max(norms) < max(SETTING.norms)
    made = [certify(SETTING, 0.3, Interval(0.001, 0.05), records=100, clip=norm) for norm in norms]
    ratios = [each.noise / each.clip for each in made]
    assert ratios == pytest.approx([ratios[0]] * len(norms), rel=2e-3), "each keeps the budget"
    means = [0.4, 0.5, 0.6, 0.9, 0.3, 0.2]
    metrics: dict[str, list[float | None]] = {
        each.protection: [mean - 0.1, mean + 0.1] for each, mean in zip(made, means, strict=True)
    }
    metrics[made[3].protection] = [1.0, None]  # one training diverged
    found = best_clip(made, training(metrics), rounds=3, seeds=(7, 8))
    assert found.clip == norms[2]
    assert (found.clip_rule, made[2].clip_rule) == ("utility", "stated")
    assert [each.metric for each in found.clips_tried] == pytest.approx(
        [0.4, 0.5, 0.6, None, 0.3, 0.2]
    )
    assert found.noise == made[2].noise
