"""Costs weighed, caps, and who comes first among equals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cli.own_scenario import small
from tests.tuning.priced_candidates import candidate, pricing
from tests.tuning.simulating import Simulated, runner

from trilemma.errors import InvalidInput
from trilemma.game.estimates import Estimate
from trilemma.game.job_results import Diverged
from trilemma.game.jobs import CostJob, Job, TrainJob
from trilemma.protection.specs import parse_protection
from trilemma.tuning.families.pricing import priced, ranked
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.candidate import Candidate

NOISE = parse_protection("randomization:variance=0.01")


def job_runner(**distributions: object) -> Simulated:
    return Simulated(small, None, 1, 2, 0, **distributions)  # type: ignore[arg-type]


def order(*candidates: Candidate) -> list[tuple[str, int | None, bool]]:
    return [(item.name, item.rank, item.tied) for item in ranked(candidates)]


def test_the_least_objective_comes_first() -> None:
    found = order(candidate("a", 0.3), candidate("b", 0.1), candidate("c", 0.2))
    assert found == [("b", 1, False), ("c", 2, False), ("a", 3, False)]


def test_of_those_that_no_interval_tells_apart_the_fewest_bits_win_then_the_name() -> None:
    found = order(
        candidate("heavy", 0.10, 0.05, bits=9),
        candidate("b", 0.12, 0.05, bits=1),
        candidate("a", 0.14, 0.05, bits=1),
        candidate("apart", 0.30, 0.05, bits=0.1),
    )
    assert found == [("a", 1, False), ("b", 2, True), ("heavy", 3, True), ("apart", 4, False)]


def test_a_candidate_of_which_little_is_known_does_not_tie_with_a_better_one() -> None:
    found = order(
        candidate("good", 0.12, 0.06, bits=2),
        candidate("bad", 0.59, 0.48, bits=1),
    )
    assert found == [("good", 1, False), ("bad", 2, False)]


def test_one_protection_under_two_names_is_no_tie() -> None:
    one, two = (
        replace(candidate(name, 0.1, 0.05), protection="secret-sharing") for name in ("a", "b")
    )
    assert order(one, two) == [("a", 1, False), ("b", 2, False)]


def test_what_cannot_be_chosen_has_no_rank_and_comes_last() -> None:
    bad = replace(candidate("bad", 0.0), feasible=False)
    masks = replace(candidate("masks", 0.0), deployable=False)
    unpriced = replace(candidate("unpriced", 0.0), objective=None)
    found = order(bad, masks, unpriced, candidate("a", 0.9))
    assert found[0] == ("a", 1, False)
    assert {item[1:] for item in found[1:]} == {(None, False)}
    assert ranked([bad]) == (bad,)
    assert ranked([]) == ()


def test_trainings_come_in_pairs_and_rounds_are_timed() -> None:
    done: list[Job] = []
    run = runner(job_runner(lost={"randomization": 0.1}), done)
    found, objective = run(pricing(Problem(0.3, 2.0, 0.0)).price(NOISE))
    trained = {(item.protection, item.seed) for item in done if isinstance(item, TrainJob)}
    assert trained == {(spec, s) for spec in ("none", NOISE.describe()) for s in range(3)}
    assert [item.rounds for item in done if isinstance(item, CostJob)] == [6]
    assert found.utility_loss.value == pytest.approx(0.1, abs=1e-3)
    assert objective.value == pytest.approx(2 * found.utility_loss.value)
    assert objective.low == pytest.approx(2 * found.utility_loss.low)
    assert objective.high == pytest.approx(2 * found.utility_loss.high)


def test_slower_rounds_weigh_by_their_own_weight() -> None:
    found, objective = runner(job_runner())(pricing(Problem(0.3, 0.0, 0.5)).price(NOISE))
    assert found.efficiency_reduction.value > 0
    assert objective.value == pytest.approx(0.5 * found.efficiency_reduction.value)


def test_a_weight_a_client() -> None:
    problem = Problem(0.3, (1.0, 3.0), 0.0)
    _, objective = runner(job_runner(lost={"randomization": 0.1}))(pricing(problem).price(NOISE))
    assert objective.value == pytest.approx((1 * 0.1 + 3 * 0.1) / 2, abs=2e-3)
    with pytest.raises(InvalidInput, match="3 entries for 2 clients"):
        runner(job_runner())(pricing(Problem(0.3, (1.0, 1.0, 1.0))).price(NOISE))


def test_no_protection_costs_nothing() -> None:
    found, objective = runner(job_runner())(pricing().price(parse_protection("none")))
    assert found.utility_loss == found.efficiency_reduction == Estimate(0.0, 0.0, 0.0)
    assert objective == Estimate(0.0, 0.0, 0.0)


def test_a_training_that_diverges_is_told_apart() -> None:
    with pytest.raises(Diverged, match="randomization"):
        runner(job_runner(diverging=("randomization",)))(pricing().price(NOISE))


def test_a_cap_is_a_reason() -> None:
    capped = pricing(Problem(0.3, max_utility_loss=0.01))
    plain = Candidate("a", "measured", True, True, "Fine.")
    found = runner(job_runner(lost={"randomization": 0.1}))(priced(plain, NOISE, capped))
    assert not found.feasible
    assert found.breaks_a_cap
    assert found.statement.startswith("Fine. But the upper limit of the utility loss of 0.1")
    assert found.costs is not None, "what it would cost is shown"


def test_a_cap_between_the_estimate_and_its_upper_limit_is_not_kept() -> None:
    run = runner(job_runner(lost={"randomization": 0.1}))
    plain = Candidate("a", "measured", True, True, "")
    free = run(priced(plain, NOISE, pricing()))
    assert free.costs is not None
    loss = free.costs.utility_loss
    assert loss.value < loss.high

    def under(cap: float) -> Candidate:
        return run(priced(plain, NOISE, pricing(Problem(0.3, max_utility_loss=cap))))

    assert under((loss.value + loss.high) / 2).breaks_a_cap
    assert under(loss.high).feasible


def test_a_bandwidth_must_be_one() -> None:
    with pytest.raises(InvalidInput, match="bandwidth"):
        replace(pricing(), bandwidth=0.0)
