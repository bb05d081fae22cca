"""A verdict doubted: fresh games with every knowledge, and how unlikely they are if it is true."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.own_scenario import small
from tests.tuning.simulating import simulate
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.errors import InvalidInput
from trilemma.execution.journal import Run
from trilemma.game.playing.claims import checkpoints
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.tuning.replication import Attacked, replicate
from trilemma.tuning.request import Request
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        return tune(small(), basis="measured", families=("randomization",), seeds=2, strengths=0)


def again(monkeypatch: pytest.MonkeyPatch, verdict: Verdict, **how: Any) -> dict[str, Attacked]:
    simulate(monkeypatch, **how.pop("distributions", {}))
    found = replicate(small, verdict, **{"units": 40, "seed": 7, **how}).attacks
    return {item.attack: item for item in found}


def test_every_attack_of_every_rung_attacks_once(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = again(monkeypatch, verdict)
    assert list(found) == sorted(found, key=lambda name: KNOWLEDGE_LEVELS.index(found[name].knows))
    assert {value.knows for value in found.values()} == set(KNOWLEDGE_LEVELS)
    assert all(value.units == 40 for value in found.values())
    assert all(len(value.after) == len(checkpoints(small().rounds)) for value in found.values())
    assert all(value.after[-1] == value.recovered for value in found.values()), "after all rounds"
    assert {name for name, value in found.items() if not value.claimed} == {"exact-posterior"}


@pytest.mark.slow
def test_attacks_are_those_that_apply_to_the_training_that_was_proved() -> None:
    """What centres the inputs of the first layer leaves `analytic` nothing to read them off."""
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(200, 6, generator=draw)
    y = (x[:, 0] > x[:, 1]).long()
    clients = [(x[k:150:3], y[k:150:3]) for k in range(3)]
    parts = (nn.Linear(6, 2), cross_entropy, clients, (x[150:], y[150:]))
    made = Scenario(*parts, LocalTraining(batch=4, lr=0.5), rounds=6)
    asked: dict[str, Any] = {"families": ("randomization",), "seeds": 2, "minutes": 1e-9}
    proved = tune(made, preset="quick", **asked)
    found = replicate(made, proved, units=2, seed=0).attacks
    assert {"exact-posterior", "gaussian-posterior"} <= {item.attack for item in found}


def test_the_p_value_is_that_of_so_many_picks_or_more(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = verdict.largest_success_rate
    for item in again(monkeypatch, verdict).values():
        n, k = item.units, item.recovered
        tail = sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
        assert item.p_value == pytest.approx(tail)
        assert item.success.value == k / n


def test_a_true_verdict_stands_and_a_false_one_falls(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = again(monkeypatch, verdict)
    assert min(value.p_value for value in kept.values() if value.claimed) > 0.01
    stronger = {"middle": {"gaussian-posterior": 10.0}}
    broken = again(monkeypatch, verdict, distributions=stronger)
    assert broken["gaussian-posterior"].p_value < 1e-6


def test_games_are_fresh_by_their_seed(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    one, same, other = (
        again(monkeypatch, verdict, seed=seed, units=100)["gaussian-posterior"].recovered
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_only_the_rungs_asked_for(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    found = again(monkeypatch, verdict, knowledge_levels=("candidates",))
    assert list(found) == ["gaussian-posterior"]


def test_what_a_run_holds_is_not_played_again(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Run.open(tmp_path, {}) as run:
        first = again(monkeypatch, verdict, run=run)
    other = {"middle": {}, "usual": 1e9}  # a bench on which everything is picked
    with Run.open(tmp_path, {}) as run:
        assert again(monkeypatch, verdict, run=run, distributions=other) == first


def test_the_same_scenario_only(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Run.open(tmp_path, {}) as run:
        again(monkeypatch, verdict, run=run)
    simulate(monkeypatch)
    faster = small().with_local_training(lr=0.7)
    with Run.open(tmp_path, {}) as run, pytest.raises(InvalidInput, match="local training"):
        replicate(faster, verdict, units=40, seed=7, run=run)


def test_what_cannot_be_attacked_is_one_sentence(verdict: Verdict) -> None:
    with pytest.raises(InvalidInput, match="chose no protection"):
        replicate(small, replace(verdict, protection=None), units=4, seed=0)
    with pytest.raises(InvalidInput, match=r"units .* at least 1, got 0"):
        replicate(small, verdict, units=0, seed=0)
    key = replace(verdict, protection=parse_protection("paillier:mode=blind"))
    with pytest.raises(InvalidInput, match="rests on its key"):
        replicate(small, key, units=4, seed=0)


def test_a_curious_client_opens_what_the_server_cannot(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = replace(
        verdict,
        protection=parse_protection("paillier:mode=blind"),
        request=Request(adversary=Adversary.CLIENT, restarts=1),
    )
    found = again(monkeypatch, key, knowledge_levels=("candidates",), units=400)
    assert found["gaussian-posterior"].success.value == pytest.approx(0.02, abs=0.02)
