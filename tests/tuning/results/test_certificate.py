"""A certificate knows the training that its bounds are of."""

from __future__ import annotations

from dataclasses import replace

from trilemma.accounting.noise_calibration import success_bound
from trilemma.accounting.sampled_training import Training
from trilemma.tuning.results.certificate import Certificate


def certificate() -> Certificate:
    return Certificate(
        level="record", noise_multiplier=0.8, variance=1e-3, record_clip=1.0, server_lr=0.5,
        rounds=150, sampling_rate=0.03, participation="secret", survivors=7, helpers=0, person=1,
        success={100: 0.2}, leakage=0.3, worst_candidates=100, epsilon=2.0, delta=1e-5,
        true_positive_rate=0.1,
    )  # fmt: skip


def test_the_training_of_a_certificate() -> None:
    proof = certificate()
    assert proof.training() == Training(150, 0.03, 0.8, "secret", 1)
    assert proof.training(7, "known") == Training(7, 0.03, 0.8, "known", 1)
    assert replace(proof, person=3).training().records_of_person == 3


def test_fewer_rounds_and_secret_participation_allow_less() -> None:
    proof = certificate()
    whole, few, known = (
        success_bound(value, 100)
        for value in (proof.training(), proof.training(7), proof.training(None, "known"))
    )
    assert few < whole < known
