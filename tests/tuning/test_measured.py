"""Measured verdicts: counting, levels, and budgets that hold on fresh units."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from tests.commands.own_scenario import small
from tests.tuning.test_certificate import SETTING
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.beliefs.belief import largest_success_rate
from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.suite import Suite, binding_suite, is_smooth
from trilemma.estimation.tasks import AttackTask, Bench, Task
from trilemma.estimation.units import Source
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.scenarios import load_scenario
from trilemma.tuning.calibrating.gauge import AttackFailed, Gauge
from trilemma.tuning.calibrating.outcomes import UNPROTECTED, Outcome
from trilemma.tuning.choosing.families import families
from trilemma.tuning.plan import Effort
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tune import tune
from trilemma.work.executors import Crew
from trilemma.work.replay import Ask, settle


def answering(rate: Callable[[AttackTask, int], bool]) -> Ask:
    """Payloads as an attack would give them, from a rule by task and unit."""

    def ask(tasks: Sequence[Task]) -> list[bytes]:
        made = []
        for task in tasks:
            assert isinstance(task, AttackTask)
            numbers = range(task.first, task.first + task.count)
            hits = [rate(task, number) for number in numbers]
            clients = [number % SETTING.clients for number in numbers]
            found = {"client": clients, "recovered": hits, "any": hits, "failed": 0}
            made.append(json.dumps(found).encode())
        return made

    return ask


def gauge(rate: Callable[[AttackTask, int], bool], *, level: float = 0.05) -> Gauge:
    suite = Suite(("dlg", "analytic"))
    p_max = largest_success_rate(0.4)
    return Gauge(answering(rate), suite, Adversary.SERVER, SETTING.clients, p_max, level)


def test_a_unit_counts_if_any_binding_attack_recovers_it() -> None:
    def rate(task: AttackTask, number: int) -> bool:
        return number % 4 == (0 if task.attack == "dlg" else 1)

    counts = gauge(rate).count("x", Protection(), 40)
    assert (counts.units, counts.successes) == (40, 20)
    assert counts.by_attack == {"dlg": 10, "analytic": 10}
    assert sum(units for units, _ in counts.by_client.values()) == 40


def test_an_attack_that_fails_without_protection_stops_everything() -> None:
    with pytest.raises(AttackFailed, match="0 of 25 unprotected"):
        gauge(lambda task, number: False).control()


def test_a_sum_that_hides_by_itself_needs_nothing_more() -> None:
    def rate(task: AttackTask, number: int) -> bool:
        return "secret-sharing" not in task.protection

    for name in ("secret-sharing", "randomization+secret-sharing"):
        (family,) = families(SETTING, Adversary.SERVER, [name])
        found = gauge(rate).measure(family)
        assert found.calibration.outcome is Outcome.CERTIFIED
        assert found.calibration.x == UNPROTECTED


def test_masks_cannot_hide_what_the_sum_shows() -> None:
    (family,) = families(SETTING, Adversary.SERVER, ["bounded-masks"])
    found = gauge(lambda task, number: True).measure(family)
    assert found.calibration.outcome is Outcome.NOT_CERTIFIED
    assert "cancel in the sum" in found.note


def test_noise_is_found_where_the_attack_ends() -> None:
    def rate(task: AttackTask, number: int) -> bool:
        if "variance" not in task.protection:
            return True
        return float(task.protection.split("variance=")[1].split("+")[0]) < 2e-3

    (family,) = families(SETTING, Adversary.SERVER, ["randomization"])
    found = gauge(rate).measure(family)
    assert found.calibration.x is not None
    value = family.parameter(found.calibration.x)
    assert value is not None
    assert 2e-3 <= value < 4e-3


def test_units_of_one_stream_are_never_used_twice() -> None:
    used: set[tuple[str, str, int]] = set()
    draw = np.random.default_rng(0)

    def rate(task: AttackTask, number: int) -> bool:
        place = (task.stream, task.attack, number)
        if task.stream != "control":
            assert place not in used, "each test needs fresh units"
            used.add(place)
        return bool(draw.random() < 0.3) or task.stream == "control"

    (family,) = families(SETTING, Adversary.SERVER, ["randomization"])
    gauge(rate).measure(family)
    assert used


def test_the_default_suite_looks_at_the_model() -> None:
    assert binding_suite(small()) == Suite(("dlg", "analytic"))
    records = small().clients

    def kinked(model: nn.Module) -> Scenario:
        return Scenario(model, cross_entropy, records, records[0], LocalTraining())

    relu = kinked(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    assert not is_smooth(relu)
    assert "inverting-gradients" in binding_suite(relu).binding

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.last(torch.relu(self.first(x)))
            return outputs

    assert not is_smooth(kinked(Hidden())), "no layer tells, the second derivative does"


def test_asked_attacks_bind() -> None:
    assert binding_suite(small(), ["idlg", "dlg"]) == Suite(("idlg", "dlg"))
    with pytest.raises(UnknownName, match="did you mean 'dlg'"):
        binding_suite(small(), ["dlgg"])
    with pytest.raises(InvalidInput, match="at least one attack"):
        binding_suite(small(), [])


def test_a_budget_out_of_reach_says_what_was_reached_and_what_helps() -> None:
    verdict = tune(
        small,
        Problem(0.3),
        protections=["secret-sharing"],
        effort=Effort(restarts=1, rounds=2, seeds=2),
    )
    assert verdict.protection is None
    assert "more clients" in verdict.advice
    assert verdict.choice is None


def test_encryption_is_said_to_be_cryptographic() -> None:
    verdict = tune(
        small,
        Problem(0.3),
        protections=["paillier"],
        effort=Effort(restarts=1, rounds=2, seeds=2),
    )
    assert verdict.basis == "cryptographic"
    assert verdict.leakage is None, "not a measured zero"
    assert any(each.who == "a curious client" for each in verdict.beside)


def test_caps_rule_out() -> None:
    verdict = tune(
        small,
        Problem(0.6, max_cost=-2.0),
        protections=["randomization"],
        effort=Effort(restarts=1, rounds=2, seeds=2),
    )
    assert verdict.protection is None
    assert "cap" in verdict.advice


def test_the_surrogate_is_attacked_and_not_deployed_where_it_fails() -> None:
    verdict = tune(
        small, Problem(0.3), basis="surrogate", effort=Effort(restarts=1, rounds=2, seeds=2)
    )
    assert verdict.constants is not None
    assert verdict.constants.smoothed
    attacked = {each.mechanism: each for each in verdict.promises if each.measured is not None}
    assert attacked["compression"].successes == attacked["compression"].units
    assert verdict.protection is None
    assert "--basis measured" in verdict.advice


def test_a_certificate_rests_on_no_attack() -> None:
    verdict = tune(
        small,
        Problem(0.5),
        basis="certified",
        effort=Effort(restarts=1, rounds=2, seeds=2, kappa=0.1),
    )
    assert verdict.basis == "certified"
    chosen = verdict.choice
    assert chosen is not None
    assert chosen.certificate is not None
    assert chosen.certificate.kappa_confidence is None
    assert "(stated)" in chosen.statement
    assert chosen.certificate.leakage <= 0.5
    assert not any("attackers only" in sentence for sentence in verdict.limits)


def test_a_measured_blind_guess_rate_carries_its_confidence() -> None:
    """The clip norm is chosen by utility; batches are clipped, which the pool cannot read."""
    verdict = tune(
        partial(load_scenario, "digits", clients=2, batch=2),
        Problem(0.6),
        basis="certified",
        confidence=0.9,
        effort=Effort(restarts=1, rounds=3, seeds=2, clip="utility"),
    )
    chosen, kappa = verdict.choice, verdict.federation.kappa
    assert chosen is not None
    assert chosen.certificate is not None
    assert kappa is not None
    assert chosen.certificate.kappa_confidence == kappa.confidence == 0.9
    assert chosen.certificate.kappa.high == pytest.approx(2 * kappa.high)
    assert chosen.certificate.kappa.low < kappa.low, "only the upper limit is relied upon"
    assert "measured, at confidence 0.9" in chosen.statement
    tried = {each.clip: each.metric for each in chosen.certificate.clips_tried}
    assert len(tried) == 6
    assert tried[chosen.certificate.clip] == max(each for each in tried.values() if each)
    assert any("clip norm was chosen" in sentence for sentence in verdict.limits)


TUNED = ["randomization", "compression"]
SUMMED = [f"{name}+secret-sharing" for name in TUNED] + ["randomization+paillier"]
FRESH = 500
CHECKS = 3 * 4  # budgets, and what an adversary can tell apart: messages and sums, noise and masks


def fresh_successes(verdict: Verdict, source: Source, protection: str) -> int:
    """Units of a seed of their own that any binding attack recovers under the protection."""
    names = [each.name for each in verdict.attacks if each.binding]
    tasks = [
        AttackTask("fresh", protection, name, Adversary.SERVER, first, 50)
        for name in names
        for first in range(0, FRESH, 50)
    ]

    def attack(ask: Ask) -> int:
        hits = [json.loads(payload)["recovered"] for payload in ask(tasks)]
        return int(np.array(hits).reshape(len(names), FRESH).any(axis=0).sum())

    bench = Bench(source, verdict.federation.criterion, 3, 20, seed=1)
    with Crew[Task](bench, workers=2) as crew:
        found: int = settle({"fresh": attack}, crew)["fresh"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.2, 0.4, 0.6])
def test_the_budget_holds_on_500_fresh_units_of_digits(budget: float) -> None:
    """Each deployable protection that has a parameter, attacked anew at the verdict's own value.

    With two clients of one record each the bare sum leaks, so that noise and compression inside
    secret sharing or Paillier are calibrated as well. A budget is broken where an exact binomial
    test shows p > p_max at the verdict's level, shared by all the checks that are made.
    """
    source = partial(load_scenario, "digits", clients=2, batch=1)
    verdict = tune(
        source,
        Problem(budget),
        protections=["secret-sharing", *TUNED, *SUMMED],
        effort=Effort(rounds=2, seeds=2, strengths=0),
        workers=2,
    )
    found = {each.name: each for each in verdict.candidates}
    assert not found["secret-sharing"].feasible, "the sum alone leaks"
    for name in (*TUNED, *SUMMED):
        assert found[name].feasible, found[name].statement
        assert found[name].parameter is not None, "calibrated, not passed over"
        assert any(point.passed for point in found[name].points)
    noise = [found[name].parameter for name in SUMMED if "randomization" in name]
    assert noise[0] == noise[1], "the server reads the same noisy sum"
    level = (1 - verdict.confidence) / CHECKS
    for name in (*TUNED, *SUMMED[:2]):
        successes = fresh_successes(verdict, source, found[name].protection or "")
        p = binomtest(successes, FRESH, verdict.largest_success_rate, "greater").pvalue
        print(f"{budget}: {found[name].protection}: {successes} of {FRESH}, p = {p:.3g}")
        assert p > level, f"{found[name].protection}: {successes} of {FRESH}"
