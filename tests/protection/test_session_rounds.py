"""Rounds in one process: the mean that comes out, the bytes that went, who may drop out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.protection.five import CLIENTS, PAILLIER, SIZE, TEXTS, a_round, some_weights, updates

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import Seeded
from trilemma.errors import (
    InvalidInput,
    RangeExceeded,
    TooFewClients,
)
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.round_arithmetic import Arithmetic
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.sessions import ProtectedClient
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import SparseUpdate
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transports.wire import SERVER


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("text", ["none", "secret-sharing", PAILLIER, f"{PAILLIER},mode=blind"])
def test_the_mean_is_the_weighted_mean(text: str, dtype: torch.dtype, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    for weights in (None, [3, 1, 4, 1, 5], [1, 1, 1, 1, 90]):
        result = run_round(protection, updates(dtype), weights, a_round(), secret=secret)
        expected = np.average(updates(dtype).double().numpy(), axis=0, weights=weights)
        assert result.mean.dtype == dtype
        np.testing.assert_allclose(
            result.mean.double().numpy(),
            expected,
            rtol=0,
            atol=protection.transport.step_size() / 2 + 1e-7,
        )


@pytest.mark.parametrize("text", ["none", "top-k:keep=0.3", "secret-sharing", PAILLIER])
def test_dropouts_leave_the_mean_of_the_others(text: str, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    plain = updates()
    if "top-k" in text:
        plain = torch.stack(
            [protection.apply(row, 0, a_round(), Seeded(0)).values for row in plain]
        )
    result = run_round(protection, updates(), None, a_round(), secret=secret, drops={1: 0, 4: 0})
    torch.testing.assert_close(result.mean, plain[[0, 2, 3]].mean(dim=0), atol=2e-5, rtol=0)
    assert result.transcript.released.clients == (0, 2, 3)
    with pytest.raises(TooFewClients, match="threshold of 3"):
        run_round(
            protection,
            updates(),
            None,
            a_round(),
            secret=secret,
            drops=dict.fromkeys((0, 1, 4), 0),
        )


def test_another_client_opens_when_the_first_is_gone(key: PrivateKey) -> None:
    protection = parse_protection(PAILLIER)
    result = run_round(protection, updates(), None, a_round(), secret=key, drops={0: 1, 1: 1})
    torch.testing.assert_close(result.mean, updates().mean(dim=0), atol=2e-5, rtol=0)
    with pytest.raises(TooFewClients, match="left to open"):
        run_round(
            protection, updates(), None, a_round(), secret=key, drops=dict.fromkeys(range(5), 1)
        )


@pytest.mark.parametrize("text", TEXTS)
def test_bits_are_the_bytes_that_were_sent(text: str, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    transcript = run_round(
        protection,
        updates(torch.float32),
        some_weights(text),
        a_round(),
        entropy=Seeded(1),
        secret=secret,
    ).transcript
    up = sum(len(m.body) for m in transcript.messages if m.sender != SERVER)
    down = sum(len(m.body) for m in transcript.messages if m.sender == SERVER)
    assert (transcript.bits_up, transcript.bits_down) == (8 * up, 8 * down)
    assert {m.sender for m in transcript.messages} == {*range(CLIENTS), SERVER}


def test_compression_saves_what_it_says() -> None:
    info = RoundInfo.new(range(2), Seeded(1))
    big = torch.rand((2, 10_000), generator=torch.Generator().manual_seed(0))

    def bytes_up(text: str) -> float:
        transcript = run_round(parse_protection(text), big, None, info).transcript
        return transcript.bits_up / 8 / 2

    overhead = bytes_up("none") - 4 * 10_000
    assert overhead < 100
    assert bytes_up("compression:keep=0.1") == pytest.approx(4000 + overhead, rel=0.1)
    # top-k names its places: a gap of one byte each where they are dense enough
    assert bytes_up("top-k:keep=0.1") == pytest.approx(4000 + 1000 + overhead, abs=2)
    assert bytes_up("secret-sharing") == pytest.approx(4 * 10_001, abs=2000)


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("drops", [{}, {1: 0, 4: 0}])
def test_the_mean_is_that_of_the_expanded_updates(unbiased: bool, drops: dict[int, int]) -> None:
    """By hand: each message in its client's places, divided by the weights of all who answered."""
    protection = Protection((Compression(0.3, unbiased=unbiased),))
    info, weights = a_round(), [3, 1, 4, 1, 5]
    result = run_round(protection, updates(), weights, info, drops=drops)
    total, weight = np.zeros(SIZE), 0
    for client in set(range(CLIENTS)) - set(drops):
        seed = Seeded(info.mask_seed).integer("client", client)
        own = RoundInfo(info.run, info.number, info.participants, info.threshold, seed)
        sent = Compression(0.3).apply(
            SparseUpdate(torch.ones(SIZE)), client=client, round=own, entropy=Seeded(0)
        )
        assert sent.known is not None
        row = np.where(sent.known.numpy(), updates()[client].numpy(), 0.0)
        total += weights[client] * row / (0.3 if unbiased else 1.0)
        weight += weights[client]
    np.testing.assert_allclose(result.mean.numpy(), total / weight, atol=1e-12)


def test_the_mean_comes_back_where_someone_was_to_send() -> None:
    """Everyone can tell these places, whoever dropped out, so they cost no byte."""
    protection, info = parse_protection("compression:keep=0.3"), a_round()
    plain = run_round(Protection(), updates(torch.float32), None, info).transcript
    header = len(plain.messages[-1].body) - 4 * SIZE
    due = torch.zeros(SIZE, dtype=torch.bool)
    for client in range(CLIENTS):
        known = protection.mechanism_info(info, SIZE, client).known
        assert known is not None
        due |= known
    assert not due.all()
    for drops in ({}, {0: 0}):
        sent = run_round(protection, updates(torch.float32), None, info, drops=drops).transcript
        assert {len(m.body) - header for m in sent.messages if m.sender == SERVER} == {
            4 * int(due.sum())
        }
        for message in sent.messages:
            if message.sender != SERVER:
                own = protection.mechanism_info(info, SIZE, message.sender).known
                assert own is not None
                assert len(message.body) == header + 4 * int(own.sum())


@pytest.mark.parametrize("text", ["none", "secret-sharing", PAILLIER])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_named(text: str, bad: float, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    rows = updates()
    rows[3, 7] = bad
    with pytest.raises(InvalidInput, match="update of client 3 contains NaN or infinity"):
        run_round(protection, rows, None, a_round(), secret=secret)
    # and nothing of it is left: the same round runs with a sound update
    run_round(protection, updates(), None, a_round(), secret=secret)


def test_mixed_lengths_are_named() -> None:
    rows = [torch.zeros(3), torch.zeros(3), torch.zeros(4), torch.zeros(3), torch.zeros(3)]
    with pytest.raises(InvalidInput, match="one length"):
        run_round(Protection(), rows, None, a_round())
    with pytest.raises(InvalidInput, match="5 participants, got 3 updates"):
        run_round(Protection(), rows[:3], None, a_round())
    client = ProtectedClient.start(Protection(), 0, a_round(), 3)
    with pytest.raises(InvalidInput, match=r"shape \(4,\), but this round is for \(3,\)"):
        client.step(b"", torch.zeros(4))


@pytest.mark.parametrize("weight", [0, -1, 2.5, True])
def test_impossible_weights_are_named(weight: Any) -> None:
    for text in ("none", "secret-sharing"):
        with pytest.raises(InvalidInput, match="weight"):
            run_round(parse_protection(text), updates(), [1, 1, weight, 1, 1], a_round())


def test_weights_may_be_numpys() -> None:
    weights = np.array([3, 1, 4, 1, 5])
    result = run_round(parse_protection("secret-sharing"), updates(), weights.tolist(), a_round())
    same_again = run_round(parse_protection("secret-sharing"), updates(), list(weights), a_round())
    assert torch.equal(result.mean, same_again.mean)


def test_weights_above_the_cap_are_refused_not_wrapped(key: PrivateKey) -> None:
    for text in ("secret-sharing:max_weight=100", PAILLIER):
        secret = key if "paillier" in text else None
        protection = parse_protection(text)
        with pytest.raises(InvalidInput, match="add up to 105"):
            run_round(protection, updates(), [1, 1, 1, 2, 100], a_round(), secret=secret)
        with pytest.raises(InvalidInput, match="max_weight = 100"):
            run_round(protection, updates(), [1, 1, 1, 1, 101], a_round(), secret=secret)


def test_bounded_masks_need_everyone_and_equal_weights() -> None:
    protection = parse_protection("secret-sharing:bound=0.1")
    with pytest.raises(InvalidInput, match="one weight"):
        run_round(protection, updates(), [1, 1, 1, 1, 2], a_round(), entropy=Seeded(1))
    with pytest.raises(InvalidInput, match="4 of 5 answered"):
        run_round(protection, updates(), None, a_round(), entropy=Seeded(1), drops={2: 0})
    info = RoundInfo.new([0], Seeded(0))
    alone = Arithmetic(protection, updates()[:1], None, info, Seeded(1))
    assert [item.clients for item in alone.read_by(Adversary.SERVER)] == [1]


@pytest.mark.parametrize("text", ["secret-sharing:clip_range=0.25,max_weight=100", PAILLIER])
def test_a_round_sums_what_lies_beyond_the_range_as_its_edge(text: str, key: PrivateKey) -> None:
    protection = parse_protection(text)
    fixed = protection.transport.fixed
    assert fixed is not None
    secret, weights, size = key if "paillier" in text else None, [3, 1, 4, 1, 5], 2000
    rows = fixed.clip * (torch.rand((CLIENTS, size), generator=torch.Generator().manual_seed(5)))
    rows[2, :4], rows[4, 7] = -3 * fixed.clip, 9 * fixed.clip
    result = run_round(protection, rows, weights, a_round(), secret=secret)
    edged = rows.double().clamp(-fixed.clip, fixed.clip)
    expected = (edged * torch.tensor(weights)[:, None]).sum(0) / sum(weights)
    torch.testing.assert_close(result.mean.double(), expected, atol=fixed.step, rtol=0)
    share = (4 * 4 + 5 * 1) / sum(weights) / size
    assert result.transcript.released.saturated == pytest.approx(share)
    rows[4, :20] = 9 * fixed.clip
    with pytest.raises(RangeExceeded, match=r"more than the 0\.1 % that a sum may hold"):
        run_round(protection, rows, weights, a_round(), secret=secret)
