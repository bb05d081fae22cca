from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from trilemma.crypto.neighbourhoods import neighbourhood
from trilemma.deployment.nodes.round_events import Event, epsilon_of, leakage_of
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining

SHARING = "secret-sharing:max_weight=100,clip_range=8.0,precision_bits=24"
RECORDS = Deployment(
    LocalTraining(lr=0.5, batch=4, record_clip=0.5, sampling="poisson"),
    parameters=65,
    clients=10,
    cohort=10,
    threshold=7,
    rounds=150,
    sampling_rate=4 / 150,
    participation="secret",
    helpers=1,
)
CHANGES = replace(
    RECORDS,
    local_training=LocalTraining("fedavg", lr=0.5, batch=4, steps=5, sampling="poisson"),
)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"budget": 1.0}, "a budget needs noise with a clip"),
        ({"leakage_budget": 0.3}, "a budget needs noise with a clip"),
        ({"leakage_budget": 2.0}, "budget"),
        ({"metrics": ("num-examples",)}, "which is carried anyway"),
        ({"queries": "stats"}, "queries must be a tuple of names of actions, got 'stats'"),
        ({"weighting": "size"}, "weighting must be 'equal' or 'records', got 'size'"),
        ({"min_cohort": 0}, "min_cohort must be at least 1"),
        ({"metric_range": 0.0}, "metric_range"),
        ({"learning_rate": -0.1}, "learning_rate"),
    ],
)
def test_terms_check_themselves(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Terms.of("secret-sharing", **settings)


def test_bounded_masks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="needs a secret that all clients share"):
        Terms.of("secret-sharing:bound=2.0")


# What a round costs


def test_a_client_hides_behind_its_own_noise_or_behind_that_of_a_hidden_sum() -> None:
    noise = "randomization:variance=0.25,clip=1.0"
    alone = Terms.of(noise, weighting="equal", threshold=5)
    hidden = Terms.of(f"{noise}+{SHARING}", weighting="equal", threshold=5)
    weighted = Terms.of(hidden, weighting="records")
    assert [value.event(5) for value in (alone, weighted, hidden)] == [
        Event(0.5),
        Event(0.5),
        Event(1.0),
    ]


def test_noise_that_proves_nothing_counts_as_none() -> None:
    for text in (
        "none",
        SHARING,
        "randomization:variance=0.25",
        "compression:keep=0.5+randomization:variance=0.25",
    ):
        assert Terms.of(text).event(10) == Event(0.0)


@pytest.mark.parametrize("name", ["metrics", "evaluate_metrics", "queries"])
def test_what_is_released_as_it_is_proves_nothing_and_has_no_budget(name: str) -> None:
    noise = "randomization:variance=25.0,clip=1.0"
    beside: dict[str, Any] = {name: ("train_loss",)}
    assert Terms.of(noise, **beside).event(10) == Event(0.0)
    for limit in ({"budget": 1.0}, {"leakage_budget": 0.3}):
        with pytest.raises(InvalidInput, match="nothing but the protected update"):
            Terms.of(noise, **beside, **limit)


def test_a_graph_counts_the_noise_that_its_proof_counts() -> None:
    """T - c - missing of 400 clients: 267 - 40 - 4 at one deviation's square of noise each."""
    noise = "randomization:variance=1.0,clip=1.0"
    large = Terms.of(f"{noise}+secret-sharing:max_weight=400", weighting="equal")
    graph = neighbourhood(400, 267, 0.1)
    assert graph is not None
    assert large.event(400) == Event(math.sqrt(267 - 40 - graph.missing)) == Event(math.sqrt(223))
    pairs = Terms.of(f"{noise}+secret-sharing:max_weight=400,corrupt=0.9", weighting="equal")
    assert pairs.event(400) == Event(math.sqrt(266))


def test_under_paillier_one_helper_leaves_a_client_its_own_noise() -> None:
    text = "randomization:variance=1.0+paillier:max_weight=100"
    assert Terms.deployed(text, RECORDS).event(10) == Terms.deployed(
        "randomization:variance=1.0", RECORDS
    ).event(10)
    alone = Terms.deployed(text, replace(RECORDS, helpers=0)).event(10)
    assert alone.noise_multiplier == pytest.approx(math.sqrt(7) / (0.5 / 4))


def test_a_record_hides_behind_the_honest_survivors_noise() -> None:
    z = 0.61
    variance = (z * 0.5 / 4) ** 2 / (7 - 1)
    text = f"randomization:variance={variance!r}"
    summed = Terms.deployed(f"{text}+{SHARING}", RECORDS).event(10)
    assert summed == Event(summed.noise_multiplier, 1, 4 / 150, "secret", "record")
    assert summed.noise_multiplier == pytest.approx(z)
    alone = Terms.deployed(text, RECORDS).event(10)
    assert alone.noise_multiplier == pytest.approx(z / math.sqrt(6))
    known = replace(RECORDS, participation="known")
    assert Terms.deployed(text, known).event(10).participation == "known"
    rate = replace(RECORDS, local_training=replace(RECORDS.local_training, algorithm="fedavg"))
    changed = Terms.deployed(text, rate).event(10)
    assert changed.noise_multiplier == pytest.approx(z / math.sqrt(6) / 0.5)


def test_several_steps_count_at_the_level_that_costs_less() -> None:
    few = Terms.deployed("randomization:variance=4.0,clip=1.0", CHANGES).event(10)
    assert few.level == "record"
    assert few.noise_multiplier == 1.0, "a record moves a clipped update by twice the clip"
    assert few.q == pytest.approx(1 - (1 - 4 / 150) ** 5)
    every = replace(CHANGES, sampling_rate=1.0)
    assert Terms.deployed("randomization:variance=4.0,clip=1.0", every).event(10) == Event(2.0)
    unclipped = Terms.deployed("randomization:variance=4.0", CHANGES)
    assert unclipped.event(10) == Event(0.0), "five steps without a clip have no bound"


# When it ends


def test_two_runs_share_one_budget() -> None:
    terms = Terms.of("randomization:variance=25.0,clip=1.0", budget=1.0)
    event = terms.event(4)
    assert epsilon_of([event], terms.delta) == pytest.approx(0.73, abs=0.01)
    assert terms.refusal([event]) is None
    reason = terms.refusal([event, event])
    assert reason is not None
    assert "another round would bring the data to ε = 1.061 at δ = 1e-05" in reason
    assert "over the budget of 1;" in reason


def test_a_leakage_budget_adds_up_events_of_any_kind() -> None:
    terms = Terms.deployed(
        "randomization:variance=0.01", RECORDS, leakage_budget=0.3, candidates=100
    )
    event = terms.event(10)
    other = Event(3.0, 2)
    assert terms.refusal([other, event]) is None
    many = [replace(event, rounds=100), Event(0.6)]
    assert leakage_of(many, 100) > 0.3
    assert "a leakage of" in str(terms.refusal(many))
    assert "the claim is for 150" in str(terms.refusal([replace(event, rounds=151)]))


def test_a_claim_ends_with_its_rounds_and_covers_its_own_noise_only() -> None:
    terms = Terms.deployed("randomization:variance=0.01", RECORDS)
    event = terms.event(10)
    assert terms.limited
    assert terms.refusal([replace(event, rounds=150)]) is None
    reason = terms.refusal([replace(event, rounds=151)])
    assert reason is not None
    assert "the data took part in 150 rounds, and the claim is for 150" in reason
    assert "rounds under other noise" in str(terms.refusal([Event(9.0), event]))
    assert not Terms.of("none").limited


# What was measured


def test_deployed_terms_hold_to_what_was_measured() -> None:
    terms = Terms.deployed(SHARING, RECORDS)
    assert (terms.threshold, terms.min_cohort, terms.weighting) == (7, 10, "equal")
    assert terms.learning_rate == 0.5, "under FedSGD the gradient was measured"
    assert terms.by_record
    assert Terms.deployed(SHARING, CHANGES).learning_rate == 1.0
    assert Terms.deployed(SHARING, RECORDS, min_cohort=11).min_cohort == 11
    changes: dict[str, Any]
    for changes, sentence in (
        ({"threshold": 6}, "threshold is 6 here, .* measured with 7"),
        ({"min_cohort": 9}, "min_cohort is 9 here, .* measured with 10"),
        ({"weighting": "records"}, "weighting is 'records' here, .* measured with 'equal'"),
        ({"learning_rate": 1.0}, "learning_rate is 1.0 here, .* measured with 0.5"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            Terms.deployed(SHARING, RECORDS, **changes)
    weighted = replace(RECORDS, weighting="records")
    with pytest.raises(InvalidInput, match="under equal weights only"):
        Terms.deployed(SHARING, weighted)


def test_both_sides_must_mean_the_same_deployment() -> None:
    terms = Terms.deployed(SHARING, RECORDS)
    other = Terms.deployed(SHARING, replace(RECORDS, rounds=151))
    assert terms.describe() != other.describe()


@pytest.mark.parametrize(
    "settings",
    [
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": float("nan")},
        {"threshold": 0},
        {"threshold": "3"},
        {"min_cohort": 2.5},
        {"candidates": 1},
    ],
)
def test_numbers_outside_their_domain_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(settings))):
        Terms.of("secret-sharing", **settings)
