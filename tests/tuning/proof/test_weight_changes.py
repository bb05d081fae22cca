"""FedAvg proved for anyone: from `tune` to the update that leaves a node and its ledger."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import binomtest, chi2
from tests.cli.own_scenario import small
from tests.tuning.simulating import simulate

from trilemma.accounting.noise_calibration import leakage_bound
from trilemma.accounting.sampled_training import Training
from trilemma.deployment.nodes.node_training import local_update
from trilemma.deployment.nodes.round_events import leakage_of
from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import from_verdict
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining, draw_rows
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune

SHARED, ROUNDS, SIZE, STEPS = "randomization+secret-sharing", 30, 50, 2
FEW = LocalTraining("fedavg", lr=0.1, steps=STEPS, batch=1)
MOST = replace(FEW, batch=60)


@cache
def _proved(local: LocalTraining, participation: str, person: int) -> Verdict:
    """A verdict on a bench whose trainings follow known laws."""
    scenario = replace(small(4), local_training=local, rounds=ROUNDS)
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch, summed=0.02, lost={"randomization": 0.01})
        return tune(
            scenario,
            knows="anyone",
            participation=participation,
            person=person,
            seeds=2,
            families=(SHARED,),
            candidates=SIZE,
            helpers=1,
        )


def proved(local: LocalTraining, participation: str = "known", person: int = 1) -> Verdict:
    return _proved(local, participation, person)


def terms(verdict: Verdict, folder: Path, **settings: Any) -> Terms:
    verdict.save(folder / "verdict.json")
    return from_verdict(folder / "verdict.json", verdict.deployment, **settings)


def node() -> tuple[torch.nn.Module, Any, Any]:
    made = small(4)
    return made.task.model, made.loss, made.records[0]


@pytest.mark.parametrize(
    ("local", "participation", "level", "sampling"),
    [
        pytest.param(FEW, "secret", "record", "poisson", marks=pytest.mark.slow),
        (FEW, "known", "record", "poisson"),
        (MOST, "known", "client", "fixed"),
    ],
)
def test_the_smaller_proof_is_deployed_and_the_ledger_counts_as_much(
    local: LocalTraining, participation: str, level: str, sampling: Any, tmp_path: Path
) -> None:
    verdict = proved(local, participation)
    assert verdict.choice is not None
    proof = verdict.choice.certificate
    assert proof is not None
    assert (proof.level, proof.clips_updates) == (level, True)
    deployed = verdict.deployment
    assert deployed.local_training == replace(local, sampling=sampling)
    assert (deployed.weighting, deployed.helpers) == ("equal", 1)
    kept = terms(verdict, tmp_path)
    event = kept.event(4)
    assert event.level == level
    # What arithmetic and grids are granted makes the noise a little larger.
    assert proof.noise_multiplier < event.noise_multiplier < 1.002 * proof.noise_multiplier
    assert event.q == pytest.approx(proof.sampling_rate)
    whole = [replace(event, rounds=ROUNDS)]
    assert 0.29 < leakage_of(whole, SIZE) <= proof.leakage <= 0.3
    assert kept.refusal(whole) is None
    assert "claim is for 30" in (kept.refusal([replace(event, rounds=ROUNDS + 1)]) or "")


def test_either_level_alone_would_need_more_noise() -> None:
    few, most = (proved(value).choice for value in (FEW, MOST))
    assert few is not None
    assert most is not None
    small_ratio, large_ratio = (
        value.certificate.noise_multiplier * (2 if value.certificate.level == "record" else 1)
        for value in (few, most)
        if value.certificate is not None
    )
    rate = 1 - (1 - 1 / 80) ** STEPS
    assert leakage_bound(Training(ROUNDS, rate, small_ratio / 2, "known"), SIZE) <= 0.3
    assert leakage_bound(Training(ROUNDS, 1.0, small_ratio, "known"), SIZE) > 0.3
    often = 1 - (1 - 60 / 80) ** STEPS
    assert leakage_bound(Training(ROUNDS, often, large_ratio / 2, "known"), SIZE) > 0.3


def test_the_records_of_a_person_are_counted_once() -> None:
    """Their number is in the sampling rate, and the clipped update moves by 2C at most."""
    verdict = proved(FEW, person=3)
    proof = verdict.choice.certificate if verdict.choice else None
    assert proof is not None
    assert proof.sampling_rate == pytest.approx(1 - (1 - 1 / 80) ** (3 * STEPS))
    assert proof.training().records_of_person == 1
    assert leakage_bound(proof.training(), SIZE, remainder=proof.remainder) == proof.leakage
    above = {item.rounds: item.leakage.high for item in verdict.rounds if item.certified}
    size = verdict.claim.candidates  # the games', not the proof's
    expected = leakage_bound(proof.training(), size, remainder=proof.remainder)
    assert above[ROUNDS] == pytest.approx(expected)


@pytest.mark.parametrize("local", [FEW, MOST])
def test_what_a_node_sends_is_clipped_and_has_the_noise_that_was_proved(
    local: LocalTraining, tmp_path: Path
) -> None:
    kept = terms(proved(local), tmp_path)
    model, loss, records = node()
    update = 1 + local_update(model, loss, records, kept)  # 0 for an empty batch
    (noise,) = kept.protection.transforms
    assert isinstance(noise, Randomization)
    assert noise.clip is not None
    assert update.norm() > noise.clip
    info = RoundInfo.new(range(4), Seeded(1), threshold=kept.threshold_of(4))
    sent = run_round(kept.protection, [update] * 4, None, info, entropy=Seeded(2)).mean
    clipped = update * noise.clip / update.norm()
    left = float((sent - clipped).double().square().sum()) / (noise.variance / 4)
    assert 1e-9 < chi2.cdf(left, update.numel()) < 1 - 1e-9


def test_a_round_holds_a_record_as_often_as_its_steps_say() -> None:
    local = replace(FEW, steps=3, batch=8, sampling="poisson")
    seen, rounds = 0, 3000
    for number in range(rounds):
        rows, present = draw_rows(local, 80, Seeded(number).generator("draw"))
        assert present is not None
        seen += bool((present[:, rows == 5] > 0).any())
    assert binomtest(seen, rounds, 1 - 0.9**3).pvalue > 1e-3
    assert binomtest(seen, rounds, 0.1).pvalue < 1e-6


# Refusals


def test_no_metric_leaves_a_node_beside_a_proof(tmp_path: Path) -> None:
    for local in (FEW, MOST):
        with pytest.raises(InvalidInput, match="nothing but the protected update"):
            terms(proved(local), tmp_path, metrics=("train_loss",))


def test_fixed_batches_in_place_of_poisson_steps_are_refused(tmp_path: Path) -> None:
    verdict = proved(FEW)
    verdict.save(tmp_path / "verdict.json")
    own = replace(verdict.deployment, local_training=FEW)
    with pytest.raises(InvalidInput, match="sampling was 'poisson' when measured and is 'fixed'"):
        from_verdict(tmp_path / "verdict.json", own)
    with pytest.raises(InvalidInput, match="secret under Poisson sampling only"):
        replace(own, participation="secret")


def test_clipped_records_of_several_fixed_steps_prove_nothing_for_a_record() -> None:
    """A record of one step moves the gradients of all later ones."""
    fixed = Deployment(
        replace(FEW, record_clip=0.1), 83, 4, 4, 3, rounds=ROUNDS, sampling_rate=1 / 80
    )
    loose = Terms.deployed(Protection((Randomization(1e-3),)), fixed)
    assert loose.event(4).noise_multiplier == 0


def test_games_on_poisson_steps_are_refused() -> None:
    local = replace(FEW, sampling="poisson")
    with pytest.raises(InvalidInput, match=r"2 Poisson steps of FedAvg.*use sampling='fixed'"):
        Plan.of(replace(small(4), local_training=local), Request(knows="anyone"))
