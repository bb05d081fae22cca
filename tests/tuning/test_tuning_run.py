"""What a tuning chooses and says, on a bench whose attacks win at known rates."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.own_scenario import shown, small
from tests.tuning.simulating import simulate
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.beliefs.belief import largest_mean_success_rate
from trilemma.errors import InvalidInput, UnknownName
from trilemma.execution.journal import Run
from trilemma.execution.progress import Ticker
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.tuning.families.family import Family
from trilemma.tuning.families.family_setting import Setting
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune

ATTACKS = ("gaussian-posterior", "analytic")
NOISE = "randomization"


def tuned(
    monkeypatch: pytest.MonkeyPatch, distributions: dict[str, Any], **settings: Any
) -> Verdict:
    simulate(monkeypatch, **distributions)
    asked = {
        "basis": "measured",
        "attacks": ATTACKS,
        "seeds": 2,
        "strengths": 0,
        "efficiency_weight": 0.0,
    }
    return tune(small(), **{**asked, **settings})


def candidate(verdict: Verdict, name: str) -> Candidate:
    (found,) = (item for item in verdict.candidates if item.name == name)
    return found


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        lost = {NOISE: 0.05, "secret-sharing": 0.01}
        names = (NOISE, "compression", "secret-sharing", "paillier", "bounded-masks")
        return tuned(patch, {"lost": lost, "spread": 1e-4}, families=names, strengths=2)


def test_the_least_objective_is_chosen(verdict: Verdict) -> None:
    ranked = [item for item in verdict.candidates if item.rank is not None]
    assert [item.rank for item in ranked] == [1, 2, 3]
    assert [item.name for item in ranked] == ["paillier", "secret-sharing", NOISE]
    values = [item.objective.value for item in ranked if item.objective]
    assert values == sorted(values)
    assert verdict.choice is ranked[0]
    assert verdict.protection == parse_protection(str(ranked[0].protection))
    assert verdict.statement == ranked[0].statement
    assert verdict.advice == ""


def test_the_claim_and_the_rate_that_the_budget_allows(verdict: Verdict) -> None:
    assert (verdict.claim.rounds, verdict.claim.candidates, verdict.claim.inserted) == (
        60,
        21,
        False,
    )
    assert verdict.largest_success_rate == largest_mean_success_rate(0.3, 1 / 21)
    said = verdict.headline
    assert said.startswith("A server that holds the 21 candidates, sees all 60 rounds")
    assert "knows which of them used the record" in said
    assert "at most 30 of 100 attempts; guessing gives 4.8" in said


def test_a_tested_candidate_says_what_was_tested(verdict: Verdict) -> None:
    noise = candidate(verdict, NOISE)
    at = [test for test in noise.tests if test.strength == noise.strength and test.passed]
    assert {item.attack for item in at} == set(ATTACKS), "each attack passes its own test"
    for item in at:
        assert f"{item.attack} {item.recovered} of {item.units}" in noise.statement
        assert item.recovered / item.units <= verdict.largest_success_rate
    assert f"at most {verdict.largest_success_rate:.3g}" in noise.statement
    assert noise.rounds == 60
    assert noise.leakage is not None
    assert noise.leakage.value <= verdict.request.budget
    # 1/(1 + v/m) = p_max at v = m (1/p_max - 1); what is tested may not be weaker for long
    truth = 1e-3 * (1 / verdict.largest_success_rate - 1)
    assert truth < (noise.strength or 0.0) < 30 * truth


def test_what_is_tested_for_one_round_only_is_marked_and_not_chosen(verdict: Verdict) -> None:
    thinned = candidate(verdict, "compression")
    assert (thinned.rounds, thinned.feasible, thinned.rank) == (1, False, None)
    assert thinned.statement.startswith("Estimated for one round only")
    assert "cannot be chosen for a whole training" in thinned.statement
    assert thinned.objective is not None, "it is priced all the same"
    assert thinned.objective.value < 0.001


def test_masks_are_measured_and_not_deployed(verdict: Verdict) -> None:
    masks = candidate(verdict, "bounded-masks")
    assert (masks.deployable, masks.rank) == (False, None)
    assert "deploy secret-sharing instead" in masks.statement


def test_a_key_is_no_measurement(verdict: Verdict) -> None:
    key = candidate(verdict, "paillier")
    assert (key.basis, key.leakage, key.units, key.tests) == ("cryptographic", None, 0, ())
    assert "rests on the key" in key.statement
    assert not verdict.rounds, "there is nothing to see of what was chosen"
    assert not verdict.beliefs


def test_attacks_are_named_with_their_control(verdict: Verdict) -> None:
    assert [attack.name for attack in verdict.attacks] == list(ATTACKS)
    assert {attack.control_recovered for attack in verdict.attacks} == {16}
    assert {attack.control_units for attack in verdict.attacks} == {16}


def test_the_limits_come_with_the_verdict(verdict: Verdict) -> None:
    said = " ".join(verdict.limits)
    assert "deviate from the protocol" in said
    assert "A curious client. What it gets is shown beside" in said
    assert "Single records" not in said, "a key was chosen, not a measurement"


def test_the_deployment_is_the_one_that_was_attacked(verdict: Verdict) -> None:
    found = verdict.deployment
    assert (found.clients, found.cohort, found.threshold) == (2, 2, 2)
    assert (found.weighting, found.rounds, found.participation) == ("records", 60, "known")
    assert found.sampling_rate == 1 / 80


def test_leakage_grows_with_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuned(monkeypatch, {}, families=(NOISE,))
    assert found.chosen == NOISE
    steps = [item.rounds for item in found.rounds if item.knows == "candidates"]
    assert steps == [1, 2, 5, 12, 26, 60]
    assert {item.participation for item in found.rounds} == {"known"}
    leaked = [item.leakage.value for item in found.rounds if item.knows == "candidates"]
    assert leaked[-1] > leaked[0]
    assert leaked == sorted(leaked), "the same games, ever more rounds of them"
    assert [item.attack for item in found.beliefs] == ["gaussian-posterior", "exact-posterior"]
    assert found.beliefs[0].mean == pytest.approx(0.15)
    assert found.beliefs[0].largest == pytest.approx(0.2)


def test_ties_go_to_fewer_bits_and_then_to_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("paillier", "randomization+secret-sharing", "secret-sharing", NOISE)
    found = tuned(monkeypatch, {"spread": 0.01}, families=names)
    ranked = [item for item in found.candidates if item.rank]
    assert [item.name for item in ranked] == [
        NOISE,
        "randomization+secret-sharing",
        "secret-sharing",
        "paillier",
    ]
    assert [item.tied for item in ranked] == [False, True, True, True]
    bits = [item.costs.protected.bits for item in ranked if item.costs]
    assert bits == sorted(bits)
    assert bits[1] == bits[2]


def test_one_that_cannot_run_is_one_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Family.protection

    def coarse(self: Family, x: float) -> Protection:
        if self.name == "randomization+secret-sharing":
            raise InvalidInput("noise of 1e-9 is below the step of the grid.")
        return made(self, x)

    monkeypatch.setattr(Family, "protection", coarse)
    names = (NOISE, "randomization+secret-sharing")
    found = tuned(monkeypatch, {}, families=names)
    assert found.chosen == NOISE
    bad = candidate(found, names[1])
    assert (bad.feasible, bad.rank, bad.protection) == (False, None, None)
    assert bad.statement == "Cannot be run: noise of 1e-9 is below the step of the grid."


def test_one_that_diverges_is_one_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuned(monkeypatch, {"diverging": (NOISE,)}, families=(NOISE, "secret-sharing"))
    assert found.chosen == "secret-sharing"
    bad = candidate(found, NOISE)
    assert (bad.feasible, bad.rank, bad.costs) == (False, None, None)
    assert "But randomization:variance=" in bad.statement
    assert bad.statement.endswith(" diverged.")


def test_no_protection_at_all_can_be_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(*_: object) -> float:
        return 1 / 21

    monkeypatch.setattr("tests.tuning.simulating.Simulated.rate", blind)
    found = tuned(monkeypatch, {}, families=(NOISE,))
    assert found.protection == Protection()
    assert found.statement.startswith("No protection at all: every attack that was tried passed")


def test_where_nothing_keeps_the_budget_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuned(monkeypatch, {"summed": 0.9}, families=("secret-sharing",))
    assert (found.protection, found.chosen, found.leakage) == (None, None, None)
    assert found.statement == "No protection was shown to keep the budget."
    assert "larger batches" in found.advice
    assert not found.beside
    assert not found.rounds


def test_a_cap_can_rule_out_all(monkeypatch: pytest.MonkeyPatch) -> None:
    distributions = {"lost": {"secret-sharing": 0.2}}
    found = tuned(monkeypatch, distributions, families=("secret-sharing",), max_utility_loss=0.1)
    assert found.protection is None
    assert "exceeds the cap of 0.1" in found.candidates[0].statement
    assert found.advice.startswith("Some protections keep the budget but not the caps")


def test_another_adversary_stands_beside_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuned(monkeypatch, {}, families=("secret-sharing",))
    beside, crafted = found.beside
    assert (crafted.who, crafted.units) == ("a malicious server", 16)
    assert (beside.who, beside.units) == ("a curious client", 16)
    assert f"{beside.recovered} of 16" in beside.statement
    turned = tuned(monkeypatch, {}, families=("paillier",), adversary="client")
    (beside,) = turned.beside
    assert (beside.who, beside.units) == ("the server", 0)
    assert "rests on the key" in beside.statement
    assert turned.headline.startswith("A curious client that")
    assert turned.limits[-1].startswith("The server. What it gets")


def test_a_claim_about_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (NOISE, "compression")
    found = tuned(monkeypatch, {}, claim="one-round", candidates=10, families=names)
    assert (found.claim.rounds, found.claim.candidates) == (1, 10)
    assert found.deployment.rounds == 1, "no more is deployed than was claimed"
    assert "sees one round that used the record" in found.headline
    assert found.limits[0].startswith("Several rounds. ")
    assert found.choice is not None
    assert candidate(found, "compression").feasible, "for one round it may be chosen"
    assert found.rounds == ()


def test_clients_with_few_records_have_one_inserted(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)

    def data(size: int) -> TensorDataset:
        inputs = torch.rand(size, 6, generator=draw)
        return TensorDataset(inputs, torch.randint(0, 3, (size,), generator=draw))

    simulate(monkeypatch)
    few = Scenario(
        nn.Linear(6, 3),
        cross_entropy,
        [data(30) for _ in range(3)],
        data(20),
        LocalTraining(batch=2),
        rounds=4,
    )
    found = tune(few, attacks=ATTACKS, seeds=2, strengths=0, families=("secret-sharing",))
    assert (found.claim.inserted, found.claim.candidates) == (True, 23)
    assert any("inserted in place of one of the client's" in limit for limit in found.limits)


def test_the_same_seed_gives_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(seed: int) -> dict[str, Any]:
        found = tuned(monkeypatch, {}, families=(NOISE,), seed=seed).as_json()
        found["federation"].pop("data_hash")
        return found

    assert again(3) == again(3)
    assert again(3)["candidates"] != again(4)["candidates"]


def test_what_a_run_holds_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch)
    asked = Request(attacks=ATTACKS, seeds=2, strengths=0, families=("secret-sharing",))

    def once() -> Verdict:
        with Run.open(tmp_path, {}) as run:
            return tune(shown, asked, run=run)

    first = once()
    assert (tmp_path / "gallery.json").exists()

    def nothing(*_: object) -> None:
        pytest.fail("a task was done again")

    monkeypatch.setattr("trilemma.tuning.plan.JobRunner", partial(_Idle, nothing))
    assert once() == first


class _Idle:
    """A bench that has nothing to do."""

    def __init__(self, work: Any, *_: object, **__: object) -> None:
        self.work = work

    def __call__(self) -> Any:
        return self.work

    def starts(self, attack: Any) -> int:
        return 3 if attack.knows == "candidates" else 1


@pytest.mark.parametrize(
    ("summed", "found"),
    [(0.02, "use secret sharing;"), (0.9, "nothing was shown to keep the budget")],
)
def test_the_answer_is_told_before_what_stands_beside_it(
    monkeypatch: pytest.MonkeyPatch, summed: float, found: str
) -> None:
    simulate(monkeypatch, summed=summed)
    sink = io.StringIO()
    with Ticker("tune", stream=sink) as ticker:
        asked = Request(attacks=ATTACKS, seeds=2, strengths=0, families=("secret-sharing",))
        seen: list[str] = []
        tune(small, asked, ticker=ticker, answered=lambda _: seen.append(sink.getvalue()))
    lines = sink.getvalue().splitlines()
    told = [n for n, line in enumerate(lines) if line.startswith(f"tune: the answer: {found}")]
    assert len(told) == 1
    assert told[0] < len(lines) - 1
    before = [lines[: told[0] + 1]] if summed < 0.5 else []
    assert [item.splitlines() for item in seen] == before


def test_who_has_no_ticker_hears_of_the_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    answered = lambda _: heard.append("answer")  # noqa: E731
    tuned(monkeypatch, {"summed": 0.02}, families=("secret-sharing",), answered=answered)
    assert heard == ["answer"]


def test_bad_requests_are_refused_before_the_work() -> None:
    with pytest.raises(UnknownName, match="did you mean 'compression'"):
        tune(small(), families=("compresion",))
    with pytest.raises(UnknownName, match="'dgl'"):
        tune(small(), attacks=("dgl",))
    with pytest.raises(InvalidInput, match="needs the knowledge 'rest'"):
        tune(small(), attacks=("exact-posterior",))
    with pytest.raises(InvalidInput, match="allow 21; ask for fewer"):
        tune(small(), candidates=22)
    with pytest.raises(InvalidInput, match="not both"):
        tune(small(), Request(), budget=0.2)


def test_a_tuning_that_is_resumed_plays_no_game_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Although what is measured of the federation differs from process to process."""
    settings: dict[str, Any] = {"families": (NOISE,), "steps": 2}
    with Run.open(tmp_path, {}) as run:
        first = tuned(monkeypatch, {}, run=run, **settings)
    measured = Setting.of

    def otherwise(*arguments: Any, **given: Any) -> Setting:
        found = measured(*arguments, **given)
        return replace(found, spread=1.001 * found.spread)

    monkeypatch.setattr(Setting, "of", otherwise)
    monkeypatch.setattr(Run, "commit", None)
    with Run.open(tmp_path, {}) as run:
        again = tuned(monkeypatch, {}, run=run, **settings)
    assert again.candidates == first.candidates
