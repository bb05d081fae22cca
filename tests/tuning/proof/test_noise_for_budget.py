"""How much noise a request needs: against formulas by hand, and against the bounds themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from scipy.stats import binom, norm
from tests.cli.own_scenario import small

from trilemma.accounting.guarantee import Transport
from trilemma.accounting.local_steps import noise_ratio_for
from trilemma.accounting.noise_calibration import leakage_bound, leakage_supremum, success_bound
from trilemma.accounting.sampled_training import Training
from trilemma.crypto.neighbourhoods import Neighbourhood, neighbourhood
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment
from trilemma.federation.recipe import Recipe
from trilemma.game.recipe_scenarios import applied, settled
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.fixed_point import FixedPointTransport
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.noise_for_budget import Proof, bearable_records
from trilemma.tuning.recipe_rule import CLIP
from trilemma.tuning.request import Request


def federation(clients: int = 5, batch: int = 2, **training: Any) -> Scenario:
    local = LocalTraining(batch=batch, **training)
    return replace(small(clients), local_training=local)


@cache
def planned() -> Plan:
    """A plan of the federation, whose request is then changed: making one takes longer."""
    return Plan.of(federation(), Request(knows="anyone"))


def proof(
    scenario: Scenario | None = None, transport: Transport = "secret-sharing", **settings: Any
) -> Proof:
    # Known participation has a closed form; secret participation takes seconds.
    settings = {"rounds": 30, "budget": 0.3, "participation": "known", "helpers": 0, **settings}
    plan, request = planned(), Request(knows="anyone", **settings)
    least = request.threshold or plan.deployment.threshold
    return Proof.of(
        replace(
            plan,
            scenario=scenario or plan.scenario,
            request=request,
            pricing=replace(plan.pricing, rounds=settings["rounds"]),
            deployment=replace(plan.deployment, threshold=least, helpers=request.helpers or 0),
        ),
        transport,
    )


def by_hand(made: Proof, survivors: int, denominator: float = 80) -> float:
    """(z C / S)² / survivors, but for what arithmetic and grids are granted."""
    return (made.training.noise_multiplier * CLIP / denominator) ** 2 / survivors


def test_secret_rounds_want_all_clients_in_all_of_them() -> None:
    """Of a used record, ten rounds tell more than 150 with the same noise: which one is secret."""
    few, many = (Training(rounds, 4 / 6000, 0.3713, "secret") for rounds in (10, 150))
    assert success_bound(few, 100) > 2 * success_bound(many, 100)
    sampled = replace(federation(), cohort=2)
    with pytest.raises(InvalidInput, match="2 of 5 clients take part"):
        proof(sampled, participation="secret", threshold=2)
    assert proof(sampled, threshold=2).clients == 2


@pytest.mark.parametrize(
    ("settings", "transport", "survivors", "helpers"),
    [
        ({}, "plain", 1, 0),
        ({"helpers": 2}, "plain", 1, 2),
        ({}, "secret-sharing", 4, 0),
        ({"helpers": 1}, "secret-sharing", 3, 1),
        ({"threshold": 5}, "secret-sharing", 5, 0),
        ({"threshold": 5, "helpers": 2}, "secret-sharing", 3, 2),
        ({"adversary": "client"}, "secret-sharing", 3, 1),
        ({"adversary": "client"}, "plain", 3, 1),
        ({"adversary": "client", "helpers": 2}, "plain", 2, 2),
        ({}, "paillier", 4, 0),
    ],
)
def test_only_honest_survivors_count(
    settings: dict[str, Any], transport: Transport, survivors: int, helpers: int
) -> None:
    made = proof(transport=transport, **settings)
    assert (made.survivors, made.helpers) == (survivors, helpers)
    least = by_hand(made, survivors)
    assert least < made.variance() < least * 1.003, "a little more, never less"
    assert deployed(made).helpers == helpers


def test_whom_a_lying_server_may_keep_out_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cohort of 1,000 these are 8; here a small one draws a graph."""
    assert getattr(neighbourhood(1000, 667, 0.1), "missing", 0) == 8
    graph = Neighbourhood(draws=2, threshold=1, checks=3, missing=1)
    monkeypatch.setattr("trilemma.accounting.guarantee.neighbourhood", lambda *_: graph)
    assert proof().survivors == 3
    assert proof(transport="paillier").survivors == 4


def test_noise_for_all_survivors_would_not_prove_the_claim_at_the_threshold() -> None:
    made = proof(helpers=1, participation="secret")
    alone = made.variance() * made.survivors / made.clients  # as if nobody dropped out
    worst = 2 * math.sqrt(made.survivors * alone) / CLIP
    weaker = Training(30, made.training.q, worst)
    assert leakage_supremum(weaker)[0] > 0.3 * 1.1


def deployed(made: Proof) -> Deployment:
    scenario = planned().scenario
    return made.deployment(settled(made.recipe(scenario, 30), scenario))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("participation", "settings"),
    [
        ("secret", {}),
        ("secret", {"candidates": 50}),
        pytest.param("secret", {"person": 2}, marks=SLOW),
        pytest.param("secret", {"budget": 0.15}, marks=SLOW),
        ("known", {}),
        ("known", {"candidates": 50}),
        ("known", {"person": 2}),
        ("known", {"budget": 0.15}),
    ],
)
def test_the_budget_is_kept_and_hardly_more(participation: str, settings: dict[str, Any]) -> None:
    made = proof(participation=participation, **settings)
    budget = settings.get("budget", 0.3)
    found, at = made.leakage()
    assert budget - 3e-4 < found <= budget
    assert made.training.participation == participation
    assert made.training.records_of_person == settings.get("person", 1)
    if "candidates" in settings:
        assert at == 50
        direct = leakage_bound(made.training, 50, remainder=made.remainder)
        assert found == direct


def test_all_candidate_sets_need_more_noise_than_one_and_several_records_more() -> None:
    secret, known = proof(participation="secret"), proof()
    one = proof(participation="secret", candidates=50)
    assert secret.variance() > one.variance()
    assert secret.success(50, "known") > secret.success(50)
    drawn = proof(federation(batch=80), participation="secret")
    assert drawn.training == known.training, "a batch of all records is known to hold each"
    several = proof(person=3)
    assert several.variance() > known.variance()


def test_the_client_with_the_fewest_records_decides() -> None:
    scenario = federation()
    shorter = [scenario.records[0][range(40)], *scenario.records[1:]]  # type: ignore[index]
    uneven = replace(scenario, clients=shorter)
    few = proof(uneven, candidates=50, participation="secret")
    assert few.training.q == 2 / 40
    assert few.variance() > proof(scenario, candidates=50, participation="secret").variance()
    assert deployed(few).sampling_rate == 2 / 40
    # In full batches every record of every client moves the sum by C/S, S = 40.
    full = proof(uneven)
    assert full.training == proof().training
    assert full.local_training.batch == 40
    assert full.variance() == pytest.approx(4 * proof().variance())
    assert deployed(full).sampling_rate == 1


def test_a_full_batch_is_in_every_round() -> None:
    made = proof(federation())
    assert (made.training.q, made.training.participation) == (1.0, "known")
    z = math.sqrt(30) / made.training.noise_multiplier
    worst = max(float(norm.cdf(norm.ppf(1 / n) + z)) - made.success(n) for n in (2, 5, 100))
    assert abs(worst) < 1e-8
    assert deployed(made).participation == "known"


def test_a_round_that_a_client_cannot_pay_for_draws_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trilemma.tuning.proof.noise_for_budget.bearable_records", lambda _: 10)
    made = proof()
    assert (made.local_training.batch, made.local_training.sampling) == (10, "poisson")
    assert (made.training.q, made.training.participation) == (10 / 80, "known")
    assert made.leakage()[0] <= 0.3
    assert deployed(made).participation == "known"


@pytest.mark.slow
def test_such_a_part_is_as_large_where_participation_is_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trilemma.tuning.proof.noise_for_budget.bearable_records", lambda _: 10)
    known, hidden = proof(), proof(participation="secret")
    assert hidden.local_training == known.local_training
    assert hidden.variance() < known.variance()


def test_a_client_pays_by_work_and_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = federation()
    own = sum(
        2 * parameter.numel() for parameter in scenario.model.parameters() if parameter.ndim == 2
    )
    monkeypatch.setattr("trilemma.tuning.proof.noise_for_budget._FLOPS", 5 * 3 * own * 20)
    assert bearable_records(scenario) == 20
    bearable_records.cache_clear()
    monkeypatch.setattr("trilemma.tuning.proof.noise_for_budget._ENTRIES", 83 * 7)
    assert bearable_records(scenario) == 7
    bearable_records.cache_clear()


def test_one_round_is_known_to_hold_the_record() -> None:
    made = proof(claim="one-round")
    assert (made.training.rounds, made.training.q) == (1, 1.0)
    assert deployed(made).rounds == 1, "as long as the proof is about"


def test_what_is_deployed_is_what_is_proved() -> None:
    made = proof(helpers=1, participation="secret")
    terms = deployed(made)
    assert terms.local_training == LocalTraining(batch=2, record_clip=CLIP, sampling="poisson")
    assert terms.participation == "secret"
    terms, recipe = deployed(proof()), proof().recipe(planned().scenario, 30)
    assert terms.local_training == LocalTraining(
        batch=80, record_clip=CLIP, sampling="full", records=100
    )
    assert (terms.participation, terms.weighting) == ("known", "equal")
    assert (terms.threshold, terms.rounds, terms.parameters) == (4, 30, 83)
    assert recipe.local_training == terms.local_training
    assert recipe.equal_weights
    assert (recipe.rounds, recipe.threshold) == (30, 4)
    scenario = planned().scenario
    assert Recipe.of(terms) == settled(recipe, scenario), "nothing that is not deployed"
    assert applied(Recipe.of(terms), scenario).task.layout == applied(recipe, scenario).task.layout
    assert terms.server is not None
    assert [item.layer for item in terms.server.centring] == ["0", "2"]


def test_the_federations_own_training_can_be_kept() -> None:
    own = replace(federation(), server_lr=0.7)
    made = proof(own, recipe="keep")
    drawn = made.local_training
    assert (drawn.batch, drawn.sampling) == (2, "poisson")
    assert (made.training.q, made.participation) == (2 / 80, "known")
    assert 0.1 < made.clip == drawn.record_clip
    assert made.variance() == pytest.approx(
        (made.training.noise_multiplier * made.clip / 2) ** 2 / 4, rel=3e-3
    )
    recipe = made.recipe(own, 30)
    assert (recipe.step, recipe.server_decay, recipe.centring) == (0.7, False, None)
    full = replace(own, local_training=LocalTraining(batch=2, record_clip=0.4, sampling="full"))
    whole = proof(full, recipe="keep")
    assert (whole.clip, whole.training.q, whole.local_training.batch) == (0.4, 1.0, 80)


def test_single_settings_can_be_fixed() -> None:
    made = proof(clip=0.25, momentum=0.0, centring="none", server_step=3.5)
    usual = proof()
    assert made.clip == made.local_training.record_clip == 0.25
    assert made.training == usual.training
    assert made.variance() == pytest.approx(usual.variance() * 2.5**2)
    recipe = made.recipe(planned().scenario, 30)
    assert (recipe.step, recipe.momentum, recipe.centring) == (3.5, 0.0, None)


def test_public_records_move_as_much_whatever_the_smallest_client_is() -> None:
    """With a tenth of a step, beside sums that are 72/40 of a mean."""
    scenario = replace(planned().scenario, public=planned().scenario.test_records)
    shorter = [scenario.records[0][range(40)], *scenario.records[1:]]  # type: ignore[index]
    recipe = proof(replace(scenario, clients=shorter)).recipe(
        replace(scenario, clients=shorter), 30
    )
    ratio = recipe.public_weight / (1 - recipe.public_weight)
    assert ratio == pytest.approx(0.1 / 0.9 * 72 / 40)


def test_the_step_is_the_rules_whatever_the_smallest_client_is() -> None:
    """A sum over S = 40 of 40 + 4 · 80 records is 72/40 times their mean, which moves alike."""
    scenario = planned().scenario
    shorter = [scenario.records[0][range(40)], *scenario.records[1:]]  # type: ignore[index]
    uneven = replace(scenario, clients=shorter)
    even, other = proof().recipe(scenario, 30), proof(uneven).recipe(uneven, 30)
    # The length of its steps limits both; the range that the rule reads is a little narrower.
    assert other.step * 72 / 40 == pytest.approx(even.step, rel=1e-3)


@pytest.mark.parametrize("transport", ["secret-sharing", "paillier"])
@pytest.mark.parametrize("drawn", [True, False])
def test_grid_and_range_fit_the_noise_and_the_largest_batch(
    transport: Transport, drawn: bool
) -> None:
    made = proof(transport=transport, participation="secret" if drawn else "known")
    protection = made.protection()
    (noise,) = protection.transforms
    assert isinstance(noise, Randomization)
    assert noise.variance == made.variance()
    carrier = protection.transport
    assert isinstance(carrier, FixedPointTransport)
    assert carrier.step_size() <= noise.scale / 3
    assert carrier.max_weight == 5, "equal weights of one each"
    batch = int(binom.isf(1e-9 / 5 / 2 / 30, 80, 2 / 80)) / 2 if drawn else 1.0
    tail = -float(norm.ppf(1e-9 / 5 / 4 / 30 / 83))
    assert carrier.clip_range >= batch * CLIP + tail * noise.scale
    assert 1e-9 <= made.remainder < 1.001e-9


def test_single_messages_travel_as_they_are_and_leave_no_remainder() -> None:
    made = proof(transport="plain")
    assert made.protection() == Protection((Randomization(made.variance()),))
    assert made.remainder == 0.0


def test_fedavg_takes_the_level_that_needs_less_noise() -> None:
    local = LocalTraining("fedavg", lr=0.1, steps=2, batch=1)
    few = proof(replace(federation(), local_training=local), rounds=40, candidates=50)
    assert (few.level, few.local_training.sampling) == ("record", "poisson")
    ratio = noise_ratio_for(
        0.3,
        40,
        q=1 / 80,
        steps=2,
        participation="known",
        candidates=50,
        remainder=few.remainder,
    )
    assert 2 * few.training.noise_multiplier == pytest.approx(ratio)
    full = replace(local, batch=79)
    many = proof(replace(federation(), local_training=full), rounds=40, candidates=50)
    assert (many.level, many.local_training.sampling) == ("client", "fixed")
    assert many.training.noise_multiplier < 2 * few.training.noise_multiplier * 40
    for made in (few, many):
        assert made.leakage()[0] <= 0.3
        (noise,) = made.protection().transforms
        assert isinstance(noise, Randomization)
        assert noise.clip == made.clip == CLIP * 0.1, "the whole update is clipped"
        twice = 2 if made.level == "record" else 1
        least = by_hand(made, made.survivors, 1 / 0.1) * twice**2
        assert least < noise.variance < least * 1.003
        assert made.local_training.record_clip is None


def test_a_cohort_is_what_is_deployed_and_hides_nobody() -> None:
    """The server sees who takes part: the noise is that of all rounds, made by the cohort."""
    plan = replace(planned(), scenario=replace(planned().scenario, cohort=4))
    request = Request(knows="anyone", participation="known", rounds=30, helpers=0)
    deployment = replace(plan.deployment, cohort=4, threshold=3)
    pricing = replace(plan.pricing, rounds=30)
    drawn = Proof.of(
        replace(plan, request=request, deployment=deployment, pricing=pricing), "secret-sharing"
    )
    assert drawn.training == proof().training
    assert (drawn.population, drawn.clients, drawn.survivors) == (5, 4, 3)
    terms = deployed(drawn)
    assert (terms.clients, terms.cohort, terms.threshold) == (5, 4, 3)
    (sentence,) = terms.mismatches(replace(terms, cohort=5))
    assert sentence.startswith("cohort was 4 when measured and is 5 here")


def test_refusals() -> None:
    with pytest.raises(InvalidInput, match="end with 1 clients, of whom 1 may help the attacker"):
        proof(adversary="client", threshold=1)
    huge = replace(proof(), parameters=10**17)
    with pytest.raises(InvalidInput, match="finer grid"):
        huge.variance()
