"""The ladder: the chosen rung as tested, the others estimated where the attack falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.simulating import Simulated, asking

from trilemma.errors import InvalidInput
from trilemma.estimation.jobs import AttackJob, CostJob, Job, TrainJob
from trilemma.protections.protection import Protection
from trilemma.tuning.choosing.ladder import ladder_procedures
from trilemma.tuning.choosing.ladder import tested_rungs as as_tested
from trilemma.tuning.families.families import Family
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidates import Candidate
from trilemma.tuning.results.verdict import Rung

NAMES = ("randomization", "compression", "secret-sharing", "paillier", "bounded-masks")


@pytest.fixture(scope="module")
def plan() -> Plan:
    attacks = ("gaussian-posterior", "analytic")
    return Plan.of(small(), Request(families=NAMES, attacks=attacks, steps=2, seeds=4))


def estimated(
    plan: Plan,
    done: list[Job] | None = None,
    candidates: Sequence[Candidate] = (),
    **laws: Any,
) -> dict[str, Rung]:
    ask = asking(Simulated(small, None, 1, 2, 0, **laws), done)
    made = ladder_procedures(plan, candidates)
    return {name: procedure(ask) for name, procedure in made.items()}


def test_the_tested_rung_repeats_the_candidates(plan: Plan) -> None:
    found = {name: candidate(name, 0.1) for name in NAMES if name != "paillier"}
    rungs = as_tested(plan, found)
    assert [each.family for each in rungs] == ["randomization", "compression", "secret-sharing"]
    assert {each.knows for each in rungs} == {"candidates"}
    assert all(each.tested for each in rungs)
    assert all(each.metric == 0.9 and each.efficiency_reduction == 0.0 for each in rungs)


def test_other_rungs_are_estimates_by_their_leading_attack(plan: Plan) -> None:
    done: list[Job] = []
    middle = {"dlg": 1e-4, "linkage": 1e-3, "exact-posterior": 1e-1}
    rungs = estimated(plan, done, middle=middle)
    assert len(rungs) == 3 * 4
    assert not any(each.tested for each in rungs.values())
    played = {each.attacks for each in done if isinstance(each, AttackJob)}
    assert played == {("dlg",), ("linkage",), ("exact-posterior",)}
    noise = [rungs[f"{knows}: randomization"].strength for knows in ("nothing", "public", "rest")]
    for strength, m in zip(noise, (1e-4, 1e-3, 1e-1), strict=True):
        expected = m * (1 / plan.p_max - 1)  # where 1/(1 + v/m) = p_max
        assert expected / 6 < (strength or 0.0) < 6 * expected
    assert {each.seed for each in done if isinstance(each, TrainJob)} == {0, 1}, "a glance"


def test_who_knows_less_needs_no_game_where_nothing_was_needed(plan: Plan) -> None:
    done: list[Job] = []
    enough = replace(candidate("randomization", 0.1), strength=None, rounds=150)
    rungs = estimated(plan, done, [enough], middle={"exact-posterior": 1e-1})
    for knows in ("nothing", "public"):
        found = rungs[f"{knows}: randomization"]
        assert (found.strength, found.rounds, found.leakage) == (None, 150, enough.leakage)
        assert not found.tested
        assert "'candidates'" in found.note
    assert rungs["rest: randomization"].strength is not None, "who knows more is asked"
    streams = {each.stream for each in done if isinstance(each, AttackJob)}
    assert not any(each.startswith("randomization") and "rest" not in each for each in streams)


def test_rounds_are_not_timed_again_for_more_noise(plan: Plan) -> None:
    done: list[Job] = []
    middle = {"dlg": 1e-4, "map": 1e-3, "exact-posterior": 1e-1}
    tested = [replace(candidate(name, 0.1), strength=0.01) for name in NAMES[:2]]
    rungs = estimated(plan, done, tested, middle=middle)
    timed = {each.protection.split(":")[0] for each in done if isinstance(each, CostJob)}
    assert timed >= {"compression", "secret-sharing"}, "keeps other places, or was not tested"
    assert "randomization" not in timed
    assert tested[0].costs is not None
    assert rungs["rest: randomization"].metric is not None
    for knows in ("nothing", "public", "rest"):
        slower = tested[0].costs.efficiency_reduction.value
        assert rungs[f"{knows}: randomization"].efficiency_reduction == slower


def test_a_key_needs_no_game_on_any_rung(plan: Plan) -> None:
    for knows in ("nothing", "public", "rest"):
        rung = estimated(plan)[f"{knows}: paillier"]
        assert (rung.strength, rung.leakage) == (None, None)
        assert "rests on the key" in rung.note
        assert rung.metric is not None


def test_what_thins_is_estimated_for_one_round(plan: Plan) -> None:
    rungs = estimated(plan)
    assert rungs["rest: compression"].rounds == 1
    assert rungs["rest: randomization"].rounds == plan.claim.rounds == 60
    assert rungs["public: randomization"].rounds == 60, "the leading attack links rounds"
    assert rungs["nothing: randomization"].rounds == 1


def test_one_that_cannot_be_run_says_so_on_its_rung(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Family, x: float) -> Protection:
        raise InvalidInput("noise is below the grid.")

    monkeypatch.setattr(Family, "protection", refuse)
    for rung in estimated(plan).values():
        assert rung.note == "Cannot be run: noise is below the grid."
        assert rung.metric is None
