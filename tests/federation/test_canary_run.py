"""Canaries pass the deployed path, and what comes out shows what the path does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.federation.small import federation

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.canary_run import Canaries, CanaryRun, run_canaries
from trilemma.federation.recipe import Recipe
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

CLIP, ROUNDS, BATCH, CLIENTS = 0.1, 10, 20, 3
TRAINING = LocalTraining("fedsgd", batch=BATCH, record_clip=CLIP, sampling="full")
RECIPE = Recipe(TRAINING, server_lr=2.0, equal_weights=True, threshold=2, rounds=ROUNDS)
WIDE = torch.nn.Sequential(torch.nn.Linear(5, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3))
MU = 2.0  # of the noise of all three
DEVIATION = math.sqrt(ROUNDS / CLIENTS) / MU * CLIP / BATCH


def run(
    recipe: Recipe = RECIPE,
    *,
    deviation: float = DEVIATION,
    transport: Transport | None = None,
    **how: object,
) -> CanaryRun:
    transport = SecretSharing(clip_range=0.5) if transport is None else transport
    given: dict[str, object] = {"canaries": 150, "seed": 3, **how}
    noise = (Randomization(deviation**2),) if deviation else ()
    return run_canaries(
        federation(TRAINING, WIDE),
        Protection(noise, transport),
        recipe,
        clip=CLIP,
        denominator=BATCH,
        **given,  # type: ignore[arg-type]
    )


def test_directions_are_orthogonal_fresh_in_each_round_and_read_by_one_transform() -> None:
    canaries, draw = Canaries(40, 97, 3, seed=5), np.random.default_rng(0)
    rows, later = canaries.rows(0, np.arange(40)), canaries.rows(1, np.arange(40))
    np.testing.assert_allclose(rows @ rows.T, np.eye(40), atol=1e-12)
    assert np.abs(np.diag(rows @ later.T)).max() < 0.5
    vector = draw.normal(size=97)
    np.testing.assert_allclose(canaries.products(0, vector), rows @ vector)
    owned = np.concatenate([canaries.of(client) for client in range(3)])
    assert sorted(owned.tolist()) == np.flatnonzero(canaries.used).tolist()


@pytest.mark.parametrize(
    "transport", [SecretSharing(clip_range=0.5), Plain()], ids=["secret-sharing", "plain"]
)
def test_what_is_deployed_as_proved_is_read_so(transport: Transport) -> None:
    """Keys, shares and masks are real; a client's message is hidden by its own noise alone."""
    single = isinstance(transport, Plain)
    deviation = DEVIATION * math.sqrt(CLIENTS) if single else DEVIATION
    shown = run(deviation=deviation, transport=transport, entropy=Seeded(8))
    assert shown.count.mu <= MU
    low, _, high = shown.count.influence
    assert low < 1.0 < high, "a canary of four clips counts one"
    assert shown.count.noise[0] < math.sqrt(ROUNDS) / MU * 1.1
    assert shown.count.noise[2] > math.sqrt(ROUNDS) / MU * 0.95
    assert all(finding.holds for finding in shown.findings), shown.findings


def test_sums_without_messages_are_those_with_them() -> None:
    """The same seeded noise: to the bit, so that trainings without messages stand for others."""
    quick = run(messages=False)
    whole = run(messages=True, entropy=Seeded(3))
    assert quick == whole


def test_noise_of_a_third_and_a_missing_clip_show_themselves() -> None:
    weak = run(deviation=DEVIATION / 3, messages=False)
    assert weak.count.mu > MU
    assert weak.count.noise[2] < math.sqrt(ROUNDS) / MU
    unclipped = replace(RECIPE, local_training=replace(TRAINING, record_clip=None))
    long = run(unclipped, transport=SecretSharing(clip_range=8.0), messages=False)
    assert long.count.mu > MU
    assert long.count.influence[0] > 2.0


def test_no_noise_shows_itself_at_once() -> None:
    bare = run(deviation=0.0)
    assert bare.count.mu > 2 * MU
    assert not next(finding for finding in bare.findings if finding.test == "noise").holds


def test_paillier_is_read_by_those_who_hold_its_key() -> None:
    recipe = replace(RECIPE, rounds=2)
    shown = run(
        recipe, deviation=0.0, transport=Paillier(bits=1024, clip_range=0.5, insecure=True)
    )
    assert shown.count.mu > MU


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        (replace(RECIPE, rounds=None), "no number of rounds"),
        (replace(RECIPE, equal_weights=False), "weigh by their records"),
        (Recipe(LocalTraining(batch=4), equal_weights=True, rounds=2), "draw batches"),
        (
            Recipe(LocalTraining("fedavg", steps=2), equal_weights=True, rounds=2),
            "several local steps",
        ),
    ],
)
def test_what_canaries_cannot_audit_is_refused(recipe: Recipe, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        run(recipe)


def test_too_few_or_too_many_canaries_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 50"):
        run(canaries=10)
    with pytest.raises(InvalidInput, match="parameters"):
        run(canaries=10_000)
    with pytest.raises(InvalidInput, match="not all of an update"):
        run_canaries(
            federation(TRAINING, WIDE), Protection((Compression(0.5),)), RECIPE,
            clip=CLIP, denominator=BATCH, canaries=100, seed=0,
        )  # fmt: skip
