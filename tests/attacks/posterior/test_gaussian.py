from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, multivariate_normal
from tests.attacks.posterior.lining_up import (
    Game,
    beliefs,
    digit_game,
    record_gradients,
    small_records,
    small_task,
    small_view,
    with_population,
)

from trilemma.attacks import Attack, ExactPosterior, GaussianPosterior, View
from trilemma.attacks.posterior import gaussian, rest_distribution
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining
from trilemma.observations import Noise

GAUSSIAN, EXACT = GaussianPosterior(), ExactPosterior()
NOISE = Noise("gaussian", 0.1)
PLACES = torch.stack([(torch.arange(83) % 3 > 0), (torch.arange(83) % 4 > 1)]).double() / 2


def moments(view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of the public records' gradients, and the candidates' gradients."""
    public, candidate_set = view.knowledge.public, view.knowledge.candidate_set
    assert public is not None
    assert candidate_set is not None
    gradients = record_gradients(view, public).numpy()
    return gradients.mean(0), np.cov(gradients.T), record_gradients(view, candidate_set).numpy()


def test_one_record_is_found_as_exactly_as_can_be() -> None:
    """Without a rest both posteriors are the same, under noise and without."""
    task, training = small_task(), LocalTraining(batch=1)
    for noise in (NOISE, None):
        views = [small_view(s, training=training, noise=noise, task=task)[0] for s in range(6)]
        found, exact = beliefs(GAUSSIAN, views).exp(), beliefs(EXACT, views).exp()
        assert torch.allclose(found, exact, atol=1e-6)


@pytest.mark.parametrize(
    ("clients", "weights"), [(1, None), (12, None), (12, tuple(k / 78 for k in range(1, 13)))]
)
def test_the_law_of_the_rest_by_hand(clients: int, weights: tuple[float, ...] | None) -> None:
    """Dense covariances by scipy: the remainder is small beside this noise."""
    view, _ = small_view(
        4, clients=clients, weights=weights, noise=Noise("gaussian", 0.2), classes=None
    )
    mean, covariance, candidates = moments(view)
    size, each = 3, np.array(weights or [1 / clients] * clients)
    counts = np.full(clients, size)
    counts[0] -= 1
    spread = (counts * (each / size) ** 2).sum()
    rest = (counts * each / size).sum() * mean
    total = spread * covariance + 0.2**2 * np.eye(len(mean))
    observed = view.observation.update.numpy()
    logs = np.array(
        [
            multivariate_normal.logpdf(observed, each[0] / size * g + rest, total)
            for g in candidates
        ]
    )
    expected = np.exp(logs - logs.max())
    expected /= expected.sum()
    found = beliefs(GAUSSIAN, [view])[0].exp().numpy()
    assert np.allclose(found, expected, atol=0.01)
    assert np.ptp(expected) > 0.02


WAYS: dict[str, dict[str, Any]] = {
    "batch": {},
    "mask": {"known": torch.arange(83) % 2 > 0},
    "few coordinates": {"known": torch.arange(83) % 5 == 0},
    "unequal weights": {"clients": 2, "weights": (0.8, 0.2)},
    "own places": {"clients": 2, "weights": PLACES, "known": PLACES.bool().any(0)},
    "clip": {"clip": 0.2},
    "clipped sum": {"clients": 2, "clip": 0.2},
    "fedavg": {"training": LocalTraining("fedavg", lr=0.3, steps=4, batch=3)},
    "epoch": {"training": LocalTraining("fedavg", lr=0.3, steps=2, batch=2, records=4)},
    "record clip": {"training": LocalTraining(batch=3, record_clip=0.5)},
    "Poisson": {"training": LocalTraining(batch=3, sampling="poisson", record_clip=0.5)},
    "regression": {"classes": None},
}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_it_learns_however_the_update_was_made(how: dict[str, Any]) -> None:
    """Above one in seven, and no more than the Bayes-optimal pick."""
    task, units = small_task(how.get("classes", 3)), 60
    made = [
        small_view(seed, task=task, noise=Noise("gaussian", 3e-3), **how) for seed in range(units)
    ]
    game = Game([view for view, _ in made], torch.tensor([target for _, target in made]))
    solved = game.solved(GAUSSIAN)
    assert binomtest(solved, units, 1 / 7, alternative="greater").pvalue < 0.01, solved
    assert solved <= game.solved(EXACT)


def test_precision_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    game = digit_game(6, 1e-3, size=20)
    single = beliefs(GAUSSIAN, game.views)
    doubled = [
        dataclasses.replace(
            view,
            weights=view.weights.double(),
            observation=dataclasses.replace(
                view.observation, update=view.observation.update.double()
            ),
        )
        for view in game.views
    ]
    assert torch.allclose(single.exp(), beliefs(GAUSSIAN, doubled).exp(), atol=1e-3)
    monkeypatch.setattr(gaussian, "_TOGETHER", 1)
    assert torch.allclose(single.exp(), beliefs(GAUSSIAN, game.views).exp(), atol=1e-4)
    monkeypatch.setattr(rest_distribution, "_ROUNDED", 0.0)  # everything is done again in double
    assert torch.allclose(single.exp(), beliefs(GAUSSIAN, game.views).exp(), atol=1e-3)


def test_updates_made_by_factors_are_not_read_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = small_view(5, noise=NOISE)
    few = beliefs(GAUSSIAN, [view])
    monkeypatch.setattr(gaussian, "are_many", lambda _: True)
    assert torch.equal(beliefs(GAUSSIAN, [view]), few)


def test_the_population_goes_before_the_public_records() -> None:
    view, _ = small_view(5, noise=NOISE)
    other = small_records(50, Seeded(99))
    told = with_population(view, other)
    public = dataclasses.replace(view, knowledge=dataclasses.replace(view.knowledge, public=other))
    assert torch.equal(beliefs(GAUSSIAN, [told]), beliefs(GAUSSIAN, [public]))
    assert not torch.equal(beliefs(GAUSSIAN, [told]), beliefs(GAUSSIAN, [view]))


def test_what_it_has_to_know_is_asked_for() -> None:
    view, _ = small_view(0)
    few = small_records(3, Seeded(0))
    longer = small_records(9, Seeded(0))
    for changes, words in (
        ({"candidate_set": None}, "needs a candidate set"),
        ({"public": None}, "a population or public records"),
        ({"public": few}, "cannot be fitted on 3 records"),
    ):
        knowledge = dataclasses.replace(view.knowledge, **changes)
        with pytest.raises(InvalidInput, match=words):
            GAUSSIAN([dataclasses.replace(view, knowledge=knowledge)], restarts=1, seed=0)
    knowledge = dataclasses.replace(view.knowledge, candidate_set=longer)
    with pytest.raises(InvalidInput, match="a candidate set of one size"):
        GAUSSIAN([view, dataclasses.replace(view, knowledge=knowledge)], restarts=1, seed=0)


def test_no_pick_is_likelier_than_the_exact_one() -> None:
    """Unit by unit, and in the mean: who knows the rest believes the Gaussian's pick no more."""
    game = digit_game(40, 4e-3)
    exact, guess = beliefs(EXACT, game.views).exp(), beliefs(GAUSSIAN, game.views).argmax(1)
    believed = exact[torch.arange(40), guess]
    assert bool((believed <= exact.amax(1)).all())
    assert float(believed.mean()) < float(exact.amax(1).mean()) - 0.1
    # what the exact posterior says of its own picks comes true
    solved = int((exact.argmax(1) == game.target).sum())
    assert binomtest(solved, 40, float(exact.amax(1).mean())).pvalue > 1e-3


@pytest.mark.parametrize("attack", [GAUSSIAN, EXACT], ids=lambda attack: attack.name)
def test_a_record_outside_the_line_up_is_solved_blindly(attack: Attack) -> None:
    game = digit_game(150, 1e-3, size=10, outsider=True)
    solved = game.solved(attack)
    assert binomtest(solved, 150, 1 / 10).pvalue > 1e-3, solved


@pytest.mark.parametrize(
    ("clients", "variance", "least", "most"),
    [(1, 1.27e-4, 31, 40), (1, 4e-3, 10, 26), (10, 1.27e-4, 0, 12)],
)
def test_what_a_list_of_candidates_is_worth_on_digits(
    clients: int, variance: float, least: int, most: int
) -> None:
    """Of 40 games of 100 candidates, 297 public digits: .92, .40, in sums of ten .12 or more."""
    game = digit_game(40, variance, clients=clients)
    assert least <= game.solved(GAUSSIAN) <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "variance", "share", "exact"),
    [
        (1, 1.27e-4, 0.92, 1.0),
        (1, 1e-3, 0.72, 0.96),
        (1, 4e-3, 0.40, 0.83),
        (10, 1.27e-4, 0.12, 0.99),
        (10, 1e-3, 0.08, 0.58),
    ],
)
def test_the_table_of_solved_line_ups(
    clients: int, variance: float, share: float, exact: float
) -> None:
    """At least the shares that a plain Gaussian reached, and the exact ones, on 100 units."""
    game = digit_game(100, variance, clients=clients, seed=1)
    solved, optimal = game.solved(GAUSSIAN), game.solved(EXACT)
    assert binomtest(solved, 100, share, alternative="less").pvalue > 1e-3, solved
    assert binomtest(optimal, 100, min(exact, 0.995)).pvalue > 1e-3, optimal
    assert solved <= optimal
