"""The rule of the explorer, against every choice tried one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import pytest
from tests.reporting import examples

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.estimation.leakage import Estimate
from trilemma.reporting.page.explorer import Explorer, Preference
from trilemma.reporting.page.sections import front_explorer, verdict_explorer
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.points import Point

START = Preference(0.3, 1.0, 0.01)
ONCE = frozenset({"compression"})


def by_hand(
    points: tuple[Point, ...], want: Preference, caps: tuple[float, float]
) -> dict[str, tuple[int, float]]:
    """Mechanism -> place and objective, by trying all points."""
    best: dict[str, tuple[float, int, float]] = {}
    for place, each in enumerate(points):
        stronger = [
            other.leakage.high
            for other in points
            if other.family == each.family
            and other.protection
            and other.leakage
            and (other.place or 0) >= (each.place or 0)
        ]
        runs = each.protection and each.utility_loss and each.efficiency_reduction
        if not runs or max(stronger, default=0.0) > want.budget:
            continue
        assert each.utility_loss
        assert each.efficiency_reduction
        weight = each.place or 0.0
        if each.family not in best or weight < best[each.family][0]:
            loss, cost = each.utility_loss.value, each.efficiency_reduction.value
            best[each.family] = (
                weight, place, want.utility_weight * loss + want.efficiency_weight * cost,
            )  # fmt: skip
    return {
        name: (place, objective)
        for name, (_, place, objective) in best.items()
        if name not in ("bounded-masks", "compression")
        and points[place].utility_loss.value <= caps[0]  # type: ignore[union-attr]
        and points[place].efficiency_reduction.value <= caps[1]  # type: ignore[union-attr]
    }


def spoiled(seed: int) -> tuple[Point, ...]:
    """Curves with bumps, points that cannot be run, and points that did not train."""
    draw = random.Random(seed)
    made = list(examples.curves(points=9, units=draw.choice([12, 48, 200]), seed=seed))
    for place, each in enumerate(made):
        if each.place is not None and draw.random() < 0.15:
            made[place] = replace(each, protection=None, leakage=None, utility_loss=None)
        elif each.place is not None and draw.random() < 0.15:
            made[place] = replace(each, utility_loss=None, efficiency_reduction=None)
    draw.shuffle(made)
    return tuple(made)


def settings() -> Iterator[tuple[int, Preference, tuple[float, float]]]:
    draw = random.Random(5)
    for seed in range(60):
        want = Preference(
            draw.choice([0.02, 0.1, 0.2, 0.3, 0.5, 0.9]),
            draw.choice([0.0, 0.1, 1.0, 5.0]),
            draw.choice([0.0, 0.001, 0.01, 1.0]),
        )
        yield seed, want, draw.choice([(9.0, 999.0), (0.05, 999.0), (9.0, 1.0)])


@pytest.mark.parametrize(("seed", "want", "caps"), list(settings()))
def test_the_rule_is_the_best_of_all_choices(
    seed: int, want: Preference, caps: tuple[float, float]
) -> None:
    points = spoiled(seed)
    found = Explorer(points, examples.CLAIM, START, None, *caps, ONCE).recommend(want)
    expected = by_hand(points, want, caps)
    assert {points[each.place].family: each.place for each in found.options} == {
        name: place for name, (place, _) in expected.items()
    }
    for each in found.options:
        assert each.objective.value == expected[points[each.place].family][1]
        assert each.objective.low <= each.objective.value <= each.objective.high
    values = [each.objective.value for each in found.options]
    assert values == sorted(values)
    for rank, each in enumerate(found.options):
        assert each.tied == (rank > 0 and each.objective.low <= found.options[0].objective.high)


def test_the_random_settings_meet_every_case() -> None:
    found = [
        Explorer(spoiled(seed), examples.CLAIM, START, None, *caps, ONCE).recommend(want).options
        for seed, want, caps in settings()
    ]
    assert {len(options) for options in found} >= {0, 1, 3}
    assert any(each.tied for options in found for each in options)


def test_a_bump_on_the_strong_side_is_not_passed() -> None:
    def point(strength: float, high: float) -> Point:
        none = Estimate(0.0, 0.0, 0.0)
        return Point(
            "randomization", strength, "noise variance", 10**strength, "none",
            leakage=Estimate(0.0, 0.0, high), utility_loss=none, efficiency_reduction=none,
        )  # fmt: skip

    points = tuple(point(n / 4, high) for n, high in enumerate((0.9, 0.2, 0.4, 0.2, 0.1)))
    explorer = Explorer(points, examples.CLAIM, START)
    assert [each.place for each in explorer.recommend(Preference(0.3, 1, 1)).options] == [3]
    assert [each.place for each in explorer.recommend(Preference(0.45, 1, 1)).options] == [1]
    assert explorer.recommend(Preference(0.05, 1, 1)).options == ()


def test_only_the_own_setting_is_the_verdicts() -> None:
    explorer = Explorer(examples.curves(), examples.CLAIM, START, verdict=START)
    assert explorer.recommend(START).own
    assert not explorer.recommend(replace(START, budget=0.32)).own
    assert not Explorer(examples.curves(), examples.CLAIM, START).recommend(START).own


def test_the_sliders_can_halt_at_the_start() -> None:
    own = Preference.of(Problem(0.1234, (1.0, 2.0, 3.0), 0.015))
    assert own == Preference(0.1234, 2.0, 0.015)
    for name, stops in Explorer((), examples.CLAIM, own).stops.items():
        assert getattr(own, name) in stops
        assert [key for key, _ in groupby(stops)] == stops == sorted(stops)


@pytest.mark.parametrize("result", ["verdict", "front"])
def test_compression_is_recommended_for_one_round_only(result: str) -> None:
    """What thins is measured for one round, so that no training may rest on it."""
    want = Preference(0.5, 0.0, 1.0)
    for rounds, expected in ((1, "compression"), (150, "randomization")):
        claim = replace(examples.CLAIM, rounds=rounds)
        if result == "verdict":
            curves = examples.curves(units=300)
            explorer = verdict_explorer(examples.verdict(claim=claim, curves=curves))
        else:
            explorer = front_explorer(examples.front(claim=claim))
        best = explorer.recommend(want).options[0]
        assert explorer.points[best.place].family == expected


@pytest.mark.parametrize(("candidates", "rate"), [(20, 0.308), (38, 0.258), (100, 0.212)])
def test_what_a_budget_allows_depends_on_the_line_up(candidates: int, rate: float) -> None:
    claim = replace(examples.CLAIM, candidates=candidates)
    found = Explorer((), claim, START).recommend(START).allowed
    assert found == pytest.approx(rate, abs=5e-4)
    assert START.budget - 2e-3 <= bernoulli_leakage(found, 1 / candidates) <= START.budget + 1e-9
