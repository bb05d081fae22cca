"""The intersection-union test: every attack passes its own test, or nothing is claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.tuning.simulating import answered
from tests.tuning.small_families import CLAIM, P_MAX, SETTING, family

from trilemma.beliefs.intervals import clopper_pearson
from trilemma.entropy import Seeded
from trilemma.game.job_results import AttackResult
from trilemma.game.jobs import AttackJob, Job
from trilemma.game.playing.suite import Suite
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.calibration.outcomes import UNPROTECTED
from trilemma.tuning.families.calibrator import Calibrator, stream_of, streams
from trilemma.tuning.families.family import Family, families
from trilemma.tuning.families.game_counts import Measured

Rate = Callable[[str, float], float]


def variance_of(spec: str) -> float:
    for transform in parse_protection(spec).transforms:
        if isinstance(transform, Randomization):
            return transform.variance
    return 0.0


Results = Callable[[Sequence[Job]], list[AttackResult]]


def answering(rate: Rate, seed: int = 0) -> Results:
    """Results of attacks that win by chance, each at a rate by its name and the variance."""

    def won(task: AttackJob, attack: str) -> list[bool]:
        draw = Seeded(seed).generator(task.stream, attack, task.protection)
        numbers = draw.random(task.first + task.count)[task.first :]
        right: list[bool] = (numbers < rate(attack, variance_of(task.protection))).tolist()
        return right

    def results(tasks: Sequence[Job]) -> list[AttackResult]:
        made = []
        for task in tasks:
            assert isinstance(task, AttackJob)
            correct = {name: won(task, name) for name in task.attacks}
            after = {name: {1: value} for name, value in correct.items()}
            clients = [n % 10 for n in task.games]
            made.append(AttackResult(clients, [1] * task.count, correct, {}, after))
        return made

    return results


@dataclass
class Playing(Calibrator):
    """A gauge whose games have these results."""

    results: Results = field(default=lambda jobs: [])

    def measured(self, family: Family) -> Measured:
        return answered(self.measure(family), self.results)


def calibrator(rate: Rate, *attacks: str, seed: int = 0, level: float = 0.05) -> Playing:
    suite = Suite("candidates", attacks or ("lead", "other"))
    results = answering(rate, seed)
    return Playing(suite, Adversary.SERVER, 1, P_MAX, level, results=results)


def falling(at: float, width: float = 0.3) -> Callable[[float], float]:
    """A success rate that falls from 1 to 0 around a variance."""

    def rate(variance: float) -> float:
        if variance == 0:
            return 1.0
        return float(1 / (1 + np.exp((np.log10(variance) - np.log10(at)) / width * 3)))

    return rate


def test_counts_are_by_attack_and_the_strongest_decides() -> None:
    made = calibrator(lambda attack, _: 1.0 if attack == "lead" else 0.0)
    counts = answered(made.count("x", Protection(), 40), made.results)
    assert counts.by_attack == {"lead": 40, "other": 0}
    assert (counts.strongest, counts.successes, counts.units) == ("lead", 40, 40)
    assert sum(units for units, _ in counts.by_client.values()) == 40


def test_the_search_ends_where_every_attack_passes() -> None:
    weak, strong = falling(1e-4), falling(1e-3)
    found = calibrator(lambda a, v: (strong if a == "lead" else weak)(v)).measured(family())
    assert found.calibration.strength is not None
    assert found.counts is not None
    variance = family().strength(found.calibration.strength or 0.0)
    assert variance is not None
    assert 1e-3 < variance < 1e-2
    assert {test.attack for test in found.tests} == {"lead", "other"}
    assert all(test.passed for test in found.tests)
    assert {test.strength for test in found.tests} == {variance}


@pytest.mark.parametrize(("bare", "same"), [(0.01, True), (1.0, False)])
def test_nothing_is_added_to_a_sum_that_passes_by_itself(bare: float, same: bool) -> None:
    """One claim, one test: noise inside secret sharing without noise is secret sharing."""
    inside, alone = family("randomization+secret-sharing"), family("secret-sharing")
    made = calibrator(lambda _, variance: bare if variance == 0 else falling(1e-3)(variance))
    made.bare = alone
    assert (made.measured(inside) == made.measured(alone)) is same
    assert made.measured(inside).calibration.strength is not None


def test_a_quick_look_leaves_out_what_wins_nothing_unprotected() -> None:
    rates = {"lead": 0.0, "blind": 0.0, "other": 0.5}
    made = calibrator(lambda a, v: rates[a] * falling(1e-3)(v), *rates)
    made.brief = True
    found = made.measured(family())
    assert {test.attack for test in found.tests} == {"lead", "other"}
    made.brief = False
    assert {test.attack for test in made.measured(family()).tests} == set(rates)


def test_nothing_is_searched_in_what_rounding_leaves_of_a_domain() -> None:
    narrow = replace(family(), domain=(0.3, math.nextafter(0.6, 1)))  # and 0.3 + 0.3 is 0.6
    found = calibrator(lambda a, _: float(a == "other")).measured(narrow)
    assert found.calibration.strength is None
    assert "other still guessed the right record" in found.calibration.reason


def test_an_attack_that_is_stronger_than_the_lead_moves_the_strength() -> None:
    lead, other = falling(1e-4), falling(1e-2)
    found = calibrator(lambda a, v: (lead if a == "lead" else other)(v)).measured(family())
    assert found.calibration.strength is not None
    variance = family().strength(found.calibration.strength or 0.0)
    assert variance is not None
    assert variance > 1e-2
    final = [test for test in found.tests if test.strength == variance]
    assert {item.attack for item in final if item.passed} == {"lead", "other"}
    assert any(not test.passed for test in found.tests)


def test_attacks_of_one_strength_pass_together() -> None:
    """From the failed strength itself on, every second search of four equal attacks found none."""
    four = ("one", "two", "three", "four")
    found = [
        calibrator(lambda a, v: falling(1e-3, 0.9)(v), *four, seed=seed).measured(family())
        for seed in range(10)
    ]
    assert sum(item.calibration.strength is not None for item in found) >= 9


def test_an_attack_that_nothing_stops_is_said_to_be_so() -> None:
    found = calibrator(lambda a, v: 0.9 if a == "other" else falling(1e-4)(v)).measured(family())
    assert found.calibration.strength is None
    assert found.counts is None


def test_no_protection_is_found_where_none_is_needed() -> None:
    found = calibrator(lambda attack, variance: 0.01).measured(family())
    assert found.calibration.strength == UNPROTECTED


@pytest.mark.parametrize("breaks", ["lead", "other"])
def test_a_bare_sum_passes_only_if_every_attack_does(breaks: str) -> None:
    bare = family("secret-sharing")
    assert calibrator(lambda a, v: 0.01).measured(bare).calibration.strength is not None
    found = calibrator(lambda a, v: 0.9 if a == breaks else 0.01).measured(bare)
    alone = breaks == "lead"
    assert ({test.attack for test in found.tests} == {breaks}) == alone, "who leads goes first"
    assert found.calibration.strength is None
    assert breaks in found.calibration.reason


@pytest.mark.parametrize("name", ["secret-sharing", "randomization+secret-sharing"])
def test_an_attack_that_is_lost_in_sums_is_not_tried_on_them(name: str) -> None:
    """One that would always win: it decides about messages, and is not asked about sums."""
    made = calibrator(lambda attack, _: 1.0 if attack == "other" else 0.02)
    made.suite = replace(made.suite, lost=frozenset({"other"}))
    summed = made.measured(family(name))
    assert summed.calibration.strength is not None
    assert {test.attack for test in summed.tests} == {"lead"}
    alone = made.measured(family())
    assert "other" in {test.attack for test in alone.tests}
    assert alone.calibration.strength is None


def test_games_are_never_used_twice_in_one_calibration() -> None:
    seen: dict[tuple[str, str], set[int]] = {}
    rate = answering(lambda a, v: falling(1e-3)(v))

    def results(tasks: Sequence[Job]) -> list[AttackResult]:
        for task in tasks:
            assert isinstance(task, AttackJob)
            if "others" not in task.stream:
                numbers = set(range(task.first, task.first + task.count))
                before = seen.setdefault((task.stream, ""), set())
                assert not before & numbers
                before |= numbers
        return rate(tasks)

    replace(calibrator(lambda a, v: 0.0), results=results).measured(family())
    assert seen


def test_others_are_tested_in_small_tasks_to_the_same_end() -> None:
    def found(part: int) -> tuple[Measured, int, int]:
        """What was measured, and the largest tasks of searches and of the others' tests."""
        made = calibrator(
            lambda a, v: falling(1e-3)(v) / (1 + (a != "lead")), "lead", "other", "third"
        )
        searched, tested = set[int](), set[int]()

        def results(tasks: Sequence[Job]) -> list[AttackResult]:
            for task in tasks:
                assert isinstance(task, AttackJob)
                (tested if "the others" in task.stream else searched).add(task.count)
            return made.results(tasks)

        measured = replace(made, results=results, part=part).measured(family())
        return measured, max(searched), max(tested)

    whole, few = found(16), found(4)
    assert whole[2] > 4
    assert few == (whole[0], whole[1], 4), "the same games, whatever tasks they are played in"


def test_false_claims_stay_within_the_level() -> None:
    """Two attacks, each just above p_max over most of the range: a claim there is false."""
    level, runs, wrong = 0.2, 120, 0
    for seed in range(runs):

        def rate(attack: str, variance: float) -> float:
            return 0.25 if variance < 1.0 else 0.0

        found = calibrator(rate, seed=seed, level=level).measured(family())
        x = found.calibration.strength
        if x is not None:
            variance = 0.0 if x == UNPROTECTED else family().strength(x)
            wrong += variance is not None and variance < 1.0
    assert binomtest(wrong, runs, level, alternative="greater").pvalue > 0.01


def test_what_is_shown_are_fresh_games_of_a_fixed_number() -> None:
    """Whatever they say: where chance alone made the tests pass, they tell."""
    streams: dict[str, int] = {}
    base = calibrator(lambda a, v: falling(1e-3)(v))

    def noted(some: Sequence[AttackJob]) -> list[AttackResult]:
        for job in some:
            streams[job.stream] = max(streams.get(job.stream, 0), job.first + job.count)
        return base.results(some)

    found = answered(replace(base, fresh=70).measure(family()), noted)
    assert found.counts is not None
    assert found.counts.units == 70
    ((again, games),) = [item for item in streams.items() if item[0].endswith("again")]
    assert games == 70
    assert again not in {"control", *(item for item in streams if not item.endswith("again"))}

    lucky = calibrator(lambda a, v: 0.9)

    def luck(some: Sequence[AttackJob]) -> list[AttackResult]:
        won = answering(lambda a, v: 0.0)(some)
        fresh = lucky.results(some)
        return [
            now if job.stream.endswith("again") else then
            for job, then, now in zip(some, won, fresh, strict=True)
        ]

    found = answered(lucky.measure(family()), luck)
    assert found.calibration.strength is not None
    assert found.counts is not None
    assert found.counts.successes > 75


@pytest.mark.parametrize("runs", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_interval_that_is_shown_covers_the_rate(runs: int) -> None:
    """On a curve on which a test that passed shows too few games won."""
    covered = by_tests = passed = 0
    for seed in range(runs):
        made = calibrator(lambda a, v: falling(1e-4, 4.0)(v), "lead", seed=seed)
        found = made.measured(family())
        if found.counts is None:
            continue
        passed += 1
        truth = falling(1e-4, 4.0)(family().strength(found.calibration.strength or 0.0) or 0.0)
        covered += truth in clopper_pearson(found.counts.successes, found.counts.units)
        test = found.tests[0]
        by_tests += truth in clopper_pearson(test.recovered, test.units)
    assert passed >= 0.9 * runs
    assert binomtest(covered, passed, 0.95, alternative="less").pvalue > 0.01
    if runs >= 1000:
        assert binomtest(by_tests, passed, 0.95, alternative="less").pvalue < 0.01, (
            "why games are fresh"
        )


def test_families_that_look_alike_share_their_games() -> None:
    names = ["randomization+secret-sharing", "randomization+paillier"]
    inside, encrypted = families(SETTING, CLAIM, P_MAX, Adversary.SERVER, names)
    assert stream_of(inside) == stream_of(encrypted)
    assert streams((inside, encrypted)) == 1
    assert streams((inside, family(), family("compression"), family("secret-sharing"))) == 4


def test_an_estimate_lies_near_the_crossing() -> None:
    made = calibrator(lambda a, v: falling(1e-3)(v))
    x, counts = answered(made.estimate(family()), made.results)
    variance = family().strength(x)
    assert variance is not None
    assert 3e-4 < variance < 1e-2
    assert counts.units >= 6


def test_an_estimates_counts_are_of_the_very_strength_that_it_names() -> None:
    asked: list[AttackJob] = []

    def noted(tasks: Sequence[AttackJob]) -> list[AttackResult]:
        asked.extend(tasks)
        return base.results(tasks)

    base = calibrator(lambda a, v: falling(1e-3, 2.0)(v))
    x, counts = answered(base.estimate(family()), noted)
    there = family().attacked(x, Adversary.SERVER).describe()
    played = [task for task in asked if task.protection == there]
    assert counts.units == sum(task.count for task in played) > 0
    assert counts.successes == sum(result.won("lead") for result in base.results(played))


BARE = {"randomization": 1.0, "secret-sharing": 0.04}


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_played_lies_between_the_bounds_where_one_attempt_is_enough(
    name: str, seed: int
) -> None:
    def rate(attack: str, variance: float) -> float:
        weaker = 1 if attack == "lead" else 10
        return falling(1e-3)(variance) / weaker if variance else BARE[name]

    made = calibrator(rate, seed=seed)
    possible = made.possible(family(name))
    jobs: dict[str, AttackJob] = {}

    def noted(some: Sequence[AttackJob]) -> list[AttackResult]:
        jobs.update({job.key: job for job in some})
        return made.results(some)

    found = answered(made.measure(family(name)), noted)
    assert found.calibration.strength is not None
    streams = {job.stream for job in jobs.values()}
    assert len(streams) <= 3, "one attempt, the others' tests, and games again"
    for attack in ("lead", "other"):
        played = sum(job.count for job in jobs.values() if job.attacks == (attack,))
        assert possible[attack].least <= played <= possible[attack].most
