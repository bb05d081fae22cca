"""Fronts against brute force, the grid's cover, studies that resume, points that are measured."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from tests.commands.own_scenario import small

from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.leakage import Estimate
from trilemma.observations import Adversary
from trilemma.tuning.fronts.front import grid_strength, hypervolume, knee, non_dominated
from trilemma.tuning.fronts.pareto import REFERENCE, Front, measure_front
from trilemma.tuning.fronts.points import RESOLUTION, Evaluated
from trilemma.tuning.fronts.study import SamplerName, Study, grid_point
from trilemma.tuning.plan import Effort
from trilemma.work.journal import Run

SUMMED = "randomization+secret-sharing"
QUICK = Effort(restarts=1, rounds=2, seeds=2)


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@pytest.mark.parametrize("seed", range(8))
def test_the_non_dominated_set_is_that_of_brute_force(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = [tuple(map(float, row)) for row in draw.integers(0, 6, (40, 3))]  # ties abound
    expected = tuple(
        place
        for place, each in enumerate(points)
        if not any(dominates(other, each) for other in points)
    )
    assert non_dominated(points) == expected
    assert non_dominated([]) == ()


@pytest.mark.parametrize("seed", range(5))
def test_the_hypervolume_is_that_of_inclusion_and_exclusion(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(-0.2, 1.2, (9, 3))
    expected = 0.0
    for size in range(1, len(points) + 1):
        for group in itertools.combinations(points, size):
            sides = np.clip(1 - np.max(group, axis=0), 0, None)
            expected -= (-1) ** size * float(sides.prod())
    assert hypervolume(points.tolist(), (1, 1, 1)) == pytest.approx(expected, abs=1e-12)


def test_the_hypervolume_is_that_of_monte_carlo() -> None:
    draw = np.random.default_rng(0)
    points = draw.uniform(0, 1, (60, 3))
    samples = draw.uniform(0, 1, (40_000, 3))
    inside = np.any(np.all(points[None] <= samples[:, None], axis=2), axis=1)
    share = float(np.mean(inside))
    assert hypervolume(points.tolist(), (1, 1, 1)) == pytest.approx(share, abs=0.01)
    front = points[list(non_dominated(points.tolist()))]
    assert hypervolume(front.tolist(), (1, 1, 1)) == pytest.approx(
        hypervolume(points.tolist(), (1, 1, 1))
    ), "dominated points add nothing"


def test_points_beyond_the_reference_add_nothing() -> None:
    assert hypervolume([(2, 0, 0), (0, 1, 0)], (1, 1, 1)) == 0
    assert hypervolume([], (1, 1, 1)) == 0
    with pytest.raises(InvalidInput, match="3 coordinates"):
        hypervolume([(0, 0, 0)], (1, 1))
    with pytest.raises(InvalidInput, match="finite"):
        non_dominated([(0, float("nan"))])


def test_the_knee_of_a_known_front() -> None:
    """On x^½ + y^½ = 1, the point nearest to the origin is that with x = y = ¼; scale is free."""
    x = np.linspace(0, 1, 101)
    front = np.stack([x**2, 1000 * (1 - x) ** 2, np.full_like(x, 7)], axis=1)
    assert knee(front.tolist()) == 50
    with pytest.raises(InvalidInput, match="at least one"):
        knee([])


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 33, 100])
def test_the_grid_covers_whenever_it_is_stopped(count: int) -> None:
    strengths = sorted(grid_strength(number) for number in range(count))
    assert len(set(strengths)) == count
    assert (strengths[0], strengths[-1]) == (0, 1)
    assert max(np.diff(strengths)) <= 4 / count, "gaps"


def test_the_grid_takes_turns() -> None:
    found = [grid_point(["a", "b"], ["c"], number) for number in range(9)]
    assert [name for name, _ in found].count("c") == 1
    assert [strength for name, strength in found if name == "b"] == [0, 1, 0.5, 0.25]
    assert grid_point([], ["c", "d"], 3) == ("d", 0.0)


def study(path: Path, sampler: SamplerName, owner: str | None = None) -> Study:
    return Study(
        f"sqlite:///{path}",
        "test",
        sampler=sampler,
        tuned=["a", "b"],
        untuned=["c"],
        seed=3,
        owner=owner,
    )


def toy(mechanism: str, strength: float) -> tuple[float, float, float]:
    return (1 - strength) ** 2, strength**2 + 0.1 * (mechanism == "b"), 0.5


def worked(trials: Study, count: int) -> list[tuple[str, float]]:
    while choices := trials.choices(count, at_once=1):
        for each in choices:
            result = {"at": [each.mechanism, each.strength]}
            trials.finish(each, result, toy(each.mechanism, each.strength))
    return [tuple(result["at"]) for result in trials.results()]


@pytest.mark.parametrize("sampler", ["grid", "motpe", "nsga2"])
def test_a_study_goes_on_as_if_it_had_never_stopped(tmp_path: Path, sampler: SamplerName) -> None:
    with study(tmp_path / "calm", sampler) as trials:
        calm = worked(trials, 13)
    for count in (3, 11):
        with study(tmp_path / "rough", sampler) as trials:
            worked(trials, count)
            trials.choices(count + 1, at_once=1)  # killed before it is finished
    with study(tmp_path / "rough", sampler) as trials:
        assert worked(trials, 13) == calm
    assert len(set(calm)) >= 11, "not the same point again and again"


@pytest.mark.parametrize("sampler", ["grid", "motpe"])
def test_two_owners_share_a_study(tmp_path: Path, sampler: SamplerName) -> None:
    with (
        study(tmp_path / "db", sampler, "me") as mine,
        study(tmp_path / "db", sampler, "you") as yours,
    ):
        (held,) = mine.choices(6, at_once=1)
        found = worked(yours, 5)
        assert (held.mechanism, held.strength) not in found, "no point is measured twice"
        (again,) = mine.choices(6, at_once=1)
        assert again.trial.number == held.trial.number
        mine.finish(again, {"at": [again.mechanism, again.strength]}, None)
        assert not yours.choices(6, at_once=1)
        assert len(mine.results()) == 6


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "no database URL"),
        ("sqlite:////no/such/folder/x.sqlite", "cannot use the storage"),
        ("oracle://scott:tiger@host/x", "driver that is not installed"),
    ],
)
def test_a_bad_storage_is_one_sentence_without_the_password(url: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error:
        Study(url, "x", sampler="grid", tuned=["a"], untuned=[], seed=0)
    assert "tiger" not in str(error.value)
    assert "\n" not in str(error.value)


def test_objectives_are_bounded_and_rounded() -> None:
    def at(loss: float, reduction: float) -> Evaluated:
        same = Estimate(0.1234, 0, 1), Estimate(loss, 0, 0), Estimate(reduction, 0, 0)
        return Evaluated("a", 0.5, None, None, "x", "measured", same[0], 9, 1, *same[1:])

    assert at(0.5, 0.0).objectives == pytest.approx((0.123, 0.5, 0.5))
    assert at(0.5, 1e9).objectives == pytest.approx((0.123, 0.5, 1.0))
    assert at(0.5, 0.02).objectives == at(0.5, -0.02).objectives, "less than a clock can tell"
    assert Evaluated("a", 0.5).objectives is None
    assert REFERENCE > RESOLUTION


@pytest.fixture(scope="module")
def front() -> Front:
    return measure_front(
        small,
        mechanisms=["randomization", "bounded-masks", "secret-sharing", "paillier", SUMMED],
        evaluations=8,
        units=7,
        effort=QUICK,
    )


def test_what_a_front_holds(front: Front) -> None:
    names = [each.mechanism for each in front.points]
    assert names[0] == "none"
    assert sorted(names[1:3]) == ["paillier", "secret-sharing"]
    assert len(names) == 9
    for each in front.points:
        unread = each.mechanism == "paillier" or each.protection is None
        assert each.units == (0 if unread else 8), "as many of each client"
        if each.leakage is not None:
            assert each.leakage.low <= each.leakage.value <= each.leakage.high
    noise = {each.strength: each for each in front.points if each.mechanism == "randomization"}
    assert noise[0.0].recovered >= noise[1.0].recovered == 0
    (key,) = (each for each in front.points if each.mechanism == "paillier")
    assert (key.basis, key.leakage) == ("cryptographic", None), "never a measured zero"
    masks = [each for each in front.points if each.mechanism == "bounded-masks"]
    (summed,) = (each for each in front.points if each.mechanism == "secret-sharing")
    assert all(each.recovered >= summed.recovered for each in masks), "they cancel in the sum"
    assert front.knee in front.front
    best = [front.points[place].objectives for place in front.front]
    assert front.hypervolume == hypervolume([each for each in best if each], REFERENCE)
    assert "not a certificate" in front.limits[0]
    json.dumps(front.as_json(), allow_nan=False)


def test_optuna_picks_points_against_a_curious_client(tmp_path: Path) -> None:
    with Run.open(tmp_path, {}) as run:
        found = measure_front(
            small,
            mechanisms=["randomization", "secret-sharing"],
            adversary=Adversary.CLIENT,
            evaluations=4,
            units=4,
            sampler="nsga2",
            effort=QUICK,
            run=run,
            data_key=run.key("data"),
        )
    assert found.evaluations == 4
    assert all(0 <= (each.strength or 0) <= 1 for each in found.points)


def test_a_point_that_cannot_be_run_is_left_out_and_says_why(front: Front) -> None:
    weak, strong = (each for each in front.points if each.mechanism == SUMMED)
    assert weak.objectives is None
    assert "Cannot be run: noise" in weak.note
    assert front.points.index(weak) not in front.front
    assert strong.objectives is not None


def test_bad_arguments() -> None:
    with pytest.raises(UnknownName, match="sampler"):
        measure_front(small, sampler="random")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="evaluations"):
        measure_front(small, evaluations=0)
    with pytest.raises(InvalidInput, match="confidence"):
        measure_front(small, confidence=1.0)
    with pytest.raises(InvalidInput, match="at least one mechanism"):
        measure_front(small, mechanisms=[])
