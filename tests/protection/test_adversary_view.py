"""What adversaries read of a round, and that the short way there reads the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.protection.five import CLIENTS, PAILLIER, SIZE, TEXTS, a_round, some_weights, updates

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.observations import Adversary, Observation
from trilemma.protection.adversary_view import observe
from trilemma.protection.protection import Protection
from trilemma.protection.round_arithmetic import Arithmetic
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.specs import parse_protection
from trilemma.protection.transcripts import Transcript
from trilemma.protection.transforms.randomization import Randomization


def same(ours: Observation, theirs: Observation, tolerance: float) -> None:
    assert ours.noise == theirs.noise
    assert ours.clip == theirs.clip
    assert ours.clients == theirs.clients
    if isinstance(ours.weights, torch.Tensor):
        assert isinstance(theirs.weights, torch.Tensor)
        assert torch.equal(ours.weights, theirs.weights)
    else:
        assert ours.weights == theirs.weights
    if ours.known is None or theirs.known is None:
        assert ours.known is theirs.known
    else:
        assert torch.equal(ours.known, theirs.known)
        ours = Observation(ours.update[ours.known])
        theirs = Observation(theirs.update[theirs.known])
    torch.testing.assert_close(ours.update, theirs.update, atol=tolerance, rtol=0)


@pytest.mark.parametrize("adversary", Adversary)
@pytest.mark.parametrize("text", TEXTS)
def test_the_fast_path_reads_what_the_protocol_shows(
    text: str, adversary: Adversary, key: PrivateKey
) -> None:
    protection, info, weights = parse_protection(text), a_round(), some_weights(text)
    secret = key if "paillier" in text else None
    for curious in (0, 3):
        result = run_round(
            protection, updates(), weights, info, entropy=Seeded(5), secret=secret, curious=curious
        )
        shown = observe(protection, result.transcript, adversary)
        fast = [
            *Arithmetic(protection, updates(), weights, info, Seeded(5)).read_by(
                adversary, curious
            )
        ]
        assert len(shown) == len(fast)
        # rounding to the grid, and 1/keep on the way back
        tolerance = 1e-12 + 2 * protection.transport.step_size()
        for ours, theirs in zip(shown, fast, strict=True):
            same(ours, theirs, tolerance)


@pytest.mark.parametrize(
    ("text", "server", "client"),
    [
        ("none", [1] * 5, [4]),
        ("randomization:variance=0.1", [1] * 5, [4]),
        ("secret-sharing:bound=0.1", [1] * 5 + [5], [4]),
        ("secret-sharing", [5], [4]),
        (PAILLIER, [5], [4]),
        (f"{PAILLIER},mode=blind", [], [4]),
    ],
)
def test_who_reads_what(text: str, server: list[int], client: list[int], key: PrivateKey) -> None:
    """Each message, the sum, or nothing: as many clients in each observation as listed."""
    protection = parse_protection(text)
    for adversary, expected in ((Adversary.SERVER, server), (Adversary.CLIENT, client)):
        seen = Arithmetic(protection, updates(), None, a_round(), Seeded(5)).read_by(adversary)
        assert [item.clients for item in seen] == expected


def test_what_the_server_reads_of_a_sum_is_the_sum() -> None:
    protection = parse_protection("secret-sharing")
    weights = [3, 1, 4, 1, 5]
    result = run_round(protection, updates(), weights, a_round())
    (seen,) = observe(protection, result.transcript, Adversary.SERVER)
    expected = np.average(updates().numpy(), axis=0, weights=weights)
    np.testing.assert_allclose(
        seen.update.numpy(), expected, atol=protection.transport.step_size()
    )
    assert seen.weights == tuple(w / 14 for w in weights)


def test_a_curious_client_subtracts_its_own() -> None:
    for text in ("none", "secret-sharing:bound=0.2", "secret-sharing"):
        protection = parse_protection(text)
        result = run_round(protection, updates(), None, a_round(), entropy=Seeded(1), curious=2)
        (seen,) = observe(protection, result.transcript, Adversary.CLIENT)
        expected = updates()[[0, 1, 3, 4]].sum(dim=0) / 5
        torch.testing.assert_close(seen.update, expected, atol=2e-5, rtol=0)
        assert seen.noise is None, "masks that cancel leave no noise"


def test_a_curious_client_takes_its_own_system_noise_out() -> None:
    """Its own draw, not another one: what is left is the noise of the four others."""
    protection = Protection((Randomization(1e-2),))
    big = torch.zeros((CLIENTS, 40_000), dtype=torch.float64)
    result = run_round(protection, big, None, a_round(), entropy=System(), curious=1)
    (seen,) = observe(protection, result.transcript, Adversary.CLIENT)
    assert seen.noise is not None
    assert seen.noise.scale == pytest.approx(0.1 * math.sqrt(4) / 5)
    assert float(seen.update.std()) == pytest.approx(seen.noise.scale, rel=0.02)


@pytest.mark.parametrize(
    "text",
    [
        "randomization:variance=0.01,clip=0.3",
        "randomization:variance=0.01,clip=0.3+compression:keep=0.5",
        "compression:keep=0.5+randomization:variance=0.01",
        "secret-sharing:bound=0.1",
        "compression:keep=0.5+secret-sharing:bound=0.1",
        "randomization:variance=0.01+secret-sharing:clip_range=4.0",
    ],
)
@pytest.mark.parametrize("adversary", Adversary)
def test_the_noise_that_is_told_is_the_noise_that_is_there(
    text: str, adversary: Adversary
) -> None:
    """Observation.update - Σ w·clip(u) has the deviation that Observation.noise says."""
    protection = parse_protection(text)
    generator = torch.Generator().manual_seed(1)
    big = torch.rand((CLIENTS, 20_000), generator=generator, dtype=torch.float64) - 0.5
    seen = [*Arithmetic(protection, big, None, a_round(), Seeded(2)).read_by(adversary)]
    rows = big * (0.3 / big.norm(dim=1, keepdim=True)) if "clip=" in text else big
    for index, item in enumerate(seen):
        if isinstance(item.weights, torch.Tensor):
            truth = (item.weights * rows[1:]).sum(dim=0)
        elif adversary is Adversary.CLIENT:
            truth = rows[1:].sum(dim=0) / CLIENTS
        else:
            truth = rows[index] if item.clients == 1 else rows.mean(dim=0)
        known = torch.ones(20_000, dtype=torch.bool) if item.known is None else item.known
        left = (item.update - truth)[known]
        if item.noise is None:
            assert float(left.abs().max()) < 1e-12
            continue
        scale = item.noise.scale / (math.sqrt(3) if item.noise.kind == "uniform" else 1)
        assert float(left.std()) == pytest.approx(scale, rel=0.05)
        if isinstance(item.weights, torch.Tensor):  # whoever sent a coordinate, and however many
            senders = (item.weights > 0).sum(dim=0)
            for count in range(1, CLIENTS):
                part = (item.update - truth)[senders == count]
                assert float(part.std()) == pytest.approx(scale, rel=0.1)


def test_a_curious_client_is_told_who_sent_what() -> None:
    """What it reads is Σ_k weights_k · u_k, a row of weights for each of the others."""
    weights = [3, 1, 4, 1, 5]
    for text in ("compression:keep=0.3", "compression:keep=0.3,unbiased=false"):
        protection = parse_protection(text)
        for curious in (0, 3):
            result = run_round(protection, updates(), weights, a_round(), curious=curious)
            (seen,) = observe(protection, result.transcript, Adversary.CLIENT)
            assert isinstance(seen.weights, torch.Tensor)
            others = [client for client in range(CLIENTS) if client != curious]
            expected = (seen.weights * updates()[others]).sum(dim=0)
            torch.testing.assert_close(seen.update, expected, atol=1e-12, rtol=0)
            for row, client in zip(seen.weights, others, strict=True):
                known = protection.mechanism_info(a_round(), SIZE, client).known
                assert known is not None
                assert torch.equal(row, known.double() * (weights[client] / 14))
            assert seen.known is not None
            assert torch.equal(seen.known, seen.weights.ne(0).any(0))


def test_two_clients_read_each_others_places_alone() -> None:
    protection, info = parse_protection("compression:keep=0.3"), RoundInfo.new([0, 1], Seeded(1))
    arithmetic = Arithmetic(protection, updates()[:2], None, info, Seeded(0))
    (seen,) = arithmetic.read_by(Adversary.CLIENT, 1)
    assert seen.weights == (0.5,)
    assert seen.known is not None
    other = protection.mechanism_info(info, SIZE, 0).known
    assert other is not None
    assert torch.equal(seen.known, other)


def test_a_transcript_without_a_curious_client_says_so() -> None:
    result = run_round(Protection(), updates(), None, a_round())
    seen = result.transcript
    bare = Transcript(seen.round, seen.size, seen.messages, seen.released, seen.weights)
    with pytest.raises(InvalidInput, match="curious"):
        observe(Protection(), bare, Adversary.CLIENT)
    with pytest.raises(InvalidInput, match="takes no part"):
        run_round(Protection(), updates(), None, a_round(), curious=17)
