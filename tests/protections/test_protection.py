"""Protections as a whole: rounds, what adversaries read of them, texts, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import Seeded, System
from trilemma.errors import (
    InvalidInput,
    ProtocolViolation,
    SecretExposure,
    TooFewClients,
    TrilemmaError,
    UnknownName,
)
from trilemma.observations import Adversary, Observation
from trilemma.protections.protection import Protection
from trilemma.protections.protocol import Masked, Payload, RoundInfo
from trilemma.protections.specs import parse_protection
from trilemma.protections.transcripts import Released, Transcript
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression, TopK
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.plain import Plain, read_update, write_update
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.protections.transports.wire import SERVER

CLIENTS, SIZE = 5, 60
PAILLIER = "paillier:bits=2048,max_weight=100"
TEXTS = [
    "none",
    "randomization:variance=0.0001,clip=0.3",
    "compression:keep=0.3",
    "compression:keep=0.3,unbiased=false",
    "top-k:keep=0.2",
    "secret-sharing:bound=0.1",
    "compression:keep=0.5+secret-sharing:bound=0.1",
    "compression:keep=0.5+randomization:variance=0.0001",
    "randomization:variance=0.0001,clip=0.3+compression:keep=0.5",
    "randomization:variance=0.0001+top-k:keep=0.2",
    "secret-sharing:clip_range=2.0,max_weight=100",
    "compression:keep=0.5+secret-sharing:ring_bits=64,precision_bits=24",
    "randomization:variance=0.0001,clip=0.3+compression:keep=0.5+secret-sharing",
    PAILLIER,
    f"{PAILLIER},mode=blind",
    f"compression:keep=0.5+randomization:variance=0.0001+{PAILLIER},clip_range=2.0",
]


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.generate(System(), bits=2048)


def updates(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return (torch.rand((CLIENTS, SIZE), generator=generator, dtype=torch.float64) - 0.5).to(dtype)


def a_round(number: int = 0) -> RoundInfo:
    return RoundInfo.new(range(CLIENTS), Seeded(4), number=number, threshold=3)


def some_weights(text: str) -> list[int]:
    return [1] * CLIENTS if "bound" in text else [3, 1, 4, 1, 5]


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
        result = protection.run_round(
            updates(), weights, info, entropy=Seeded(5), secret=secret, curious=curious
        )
        shown = protection.observe(result.transcript, adversary)
        fast = protection.observe_updates(
            updates(), weights, adversary, entropy=Seeded(5), round=info, curious=curious
        )
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
        seen = protection.observe_updates(
            updates(), None, adversary, entropy=Seeded(5), round=a_round()
        )
        assert [each.clients for each in seen] == expected


def test_what_the_server_reads_of_a_sum_is_the_sum() -> None:
    protection = parse_protection("secret-sharing")
    weights = [3, 1, 4, 1, 5]
    result = protection.run_round(updates(), weights, a_round())
    (seen,) = protection.observe(result.transcript, Adversary.SERVER)
    expected = np.average(updates().numpy(), axis=0, weights=weights)
    np.testing.assert_allclose(
        seen.update.numpy(), expected, atol=protection.transport.step_size()
    )
    assert seen.weights == tuple(w / 14 for w in weights)


def test_a_curious_client_subtracts_its_own() -> None:
    for text in ("none", "secret-sharing:bound=0.2", "secret-sharing"):
        protection = parse_protection(text)
        result = protection.run_round(updates(), None, a_round(), entropy=Seeded(1), curious=2)
        (seen,) = protection.observe(result.transcript, Adversary.CLIENT)
        expected = updates()[[0, 1, 3, 4]].sum(dim=0) / 5
        torch.testing.assert_close(seen.update, expected, atol=2e-5, rtol=0)
        assert seen.noise is None, "masks that cancel leave no noise"


def test_a_curious_client_takes_its_own_system_noise_out() -> None:
    """Its own draw, not another one: what is left is the noise of the four others."""
    protection = Protection((Randomization(1e-2),))
    big = torch.zeros((CLIENTS, 40_000), dtype=torch.float64)
    result = protection.run_round(big, None, a_round(), entropy=System(), curious=1)
    (seen,) = protection.observe(result.transcript, Adversary.CLIENT)
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
    seen = protection.observe_updates(big, None, adversary, entropy=Seeded(2), round=a_round())
    rows = big * (0.3 / big.norm(dim=1, keepdim=True)) if "clip=" in text else big
    for index, each in enumerate(seen):
        if isinstance(each.weights, torch.Tensor):
            truth = (each.weights * rows[1:]).sum(dim=0)
        elif adversary is Adversary.CLIENT:
            truth = rows[1:].sum(dim=0) / CLIENTS
        else:
            truth = rows[index] if each.clients == 1 else rows.mean(dim=0)
        known = torch.ones(20_000, dtype=torch.bool) if each.known is None else each.known
        left = (each.update - truth)[known]
        if each.noise is None:
            assert float(left.abs().max()) < 1e-12
            continue
        scale = each.noise.scale / (math.sqrt(3) if each.noise.kind == "uniform" else 1)
        assert float(left.std()) == pytest.approx(scale, rel=0.05)
        if isinstance(each.weights, torch.Tensor):  # whoever sent a coordinate, and however many
            senders = (each.weights > 0).sum(dim=0)
            for count in range(1, CLIENTS):
                part = (each.update - truth)[senders == count]
                assert float(part.std()) == pytest.approx(scale, rel=0.1)


# The round trip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("text", ["none", "secret-sharing", PAILLIER, f"{PAILLIER},mode=blind"])
def test_the_mean_is_the_weighted_mean(text: str, dtype: torch.dtype, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    for weights in (None, [3, 1, 4, 1, 5], [1, 1, 1, 1, 90]):
        result = protection.run_round(updates(dtype), weights, a_round(), secret=secret)
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
    result = protection.run_round(updates(), None, a_round(), secret=secret, drops={1: 0, 4: 0})
    torch.testing.assert_close(result.mean, plain[[0, 2, 3]].mean(dim=0), atol=2e-5, rtol=0)
    assert result.transcript.released.clients == (0, 2, 3)
    with pytest.raises(TooFewClients, match="threshold of 3"):
        protection.run_round(
            updates(), None, a_round(), secret=secret, drops=dict.fromkeys((0, 1, 4), 0)
        )


def test_another_client_opens_when_the_first_is_gone(key: PrivateKey) -> None:
    protection = parse_protection(PAILLIER)
    result = protection.run_round(updates(), None, a_round(), secret=key, drops={0: 1, 1: 1})
    torch.testing.assert_close(result.mean, updates().mean(dim=0), atol=2e-5, rtol=0)
    with pytest.raises(TooFewClients, match="left to open"):
        protection.run_round(
            updates(), None, a_round(), secret=key, drops=dict.fromkeys(range(5), 1)
        )


@pytest.mark.parametrize("text", TEXTS)
def test_bits_are_the_bytes_that_were_sent(text: str, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    transcript = protection.run_round(
        updates(torch.float32), some_weights(text), a_round(), entropy=Seeded(1), secret=secret
    ).transcript
    up = sum(len(m.body) for m in transcript.messages if m.sender != SERVER)
    down = sum(len(m.body) for m in transcript.messages if m.sender == SERVER)
    assert (transcript.bits_up, transcript.bits_down) == (8 * up, 8 * down)
    assert {m.sender for m in transcript.messages} == {*range(CLIENTS), SERVER}


def test_compression_saves_what_it_says() -> None:
    info = RoundInfo.new(range(2), Seeded(1))
    big = torch.rand((2, 10_000), generator=torch.Generator().manual_seed(0))

    def bytes_up(text: str) -> float:
        transcript = parse_protection(text).run_round(big, None, info).transcript
        return transcript.bits_up / 8 / 2

    overhead = bytes_up("none") - 4 * 10_000
    assert overhead < 100
    assert bytes_up("compression:keep=0.1") == pytest.approx(4000 + overhead, rel=0.1)
    # top-k names its places: a gap of one byte each where they are dense enough
    assert bytes_up("top-k:keep=0.1") == pytest.approx(4000 + 1000 + overhead, abs=2)
    assert bytes_up("secret-sharing") == pytest.approx(4 * 10_001, abs=2000)


# Places


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("compression:keep=0.5", True),
        ("randomization:variance=0.01,clip=1.0+compression:keep=0.5", True),
        ("compression:keep=0.5+secret-sharing", False),
        (f"compression:keep=0.5+{PAILLIER}", False),
        (f"compression:keep=0.5+{PAILLIER},mode=blind", False),
        ("compression:keep=0.5+secret-sharing:bound=0.1", False),
    ],
)
def test_clients_send_places_of_their_own_where_nothing_has_to_align(text: str, own: bool) -> None:
    protection = parse_protection(text)
    masks = {
        tuple(protection.apply(row, client, a_round(), Seeded(0)).values.ne(0).tolist())
        for client, row in enumerate(updates())
    }
    assert len(masks) == (CLIENTS if own else 1)
    told = {
        tuple(known.tolist())
        for client in range(CLIENTS)
        if (known := protection.knowledge(a_round(), SIZE, client).known) is not None
    }
    assert told == masks, "what everyone knows of a client is what it sends"


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("drops", [{}, {1: 0, 4: 0}])
def test_the_mean_is_that_of_the_expanded_updates(unbiased: bool, drops: dict[int, int]) -> None:
    """By hand: each message in its client's places, divided by the weights of all who answered."""
    protection = Protection((Compression(0.3, unbiased=unbiased),))
    info, weights = a_round(), [3, 1, 4, 1, 5]
    result = protection.run_round(updates(), weights, info, drops=drops)
    total, weight = np.zeros(SIZE), 0
    for client in set(range(CLIENTS)) - set(drops):
        seed = Seeded(info.mask_seed).integer("client", client)
        own = RoundInfo(info.run, info.number, info.participants, info.threshold, seed)
        sent = Compression(0.3).apply(
            Masked(torch.ones(SIZE)), client=client, round=own, entropy=Seeded(0)
        )
        assert sent.known is not None
        row = np.where(sent.known.numpy(), updates()[client].numpy(), 0.0)
        total += weights[client] * row / (0.3 if unbiased else 1.0)
        weight += weights[client]
    np.testing.assert_allclose(result.mean.numpy(), total / weight, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "clients"), [("compression:keep=0.2", 5), ("compression:keep=0.2+secret-sharing", 1)]
)
def test_own_places_divide_the_variance_by_the_number_of_clients(text: str, clients: int) -> None:
    """Equal updates u: (1-ρ)/ρ · u²/K in a coordinate of the mean; common places: as for K = 1."""
    protection, update = parse_protection(text), torch.full((40,), 0.1, dtype=torch.float64)
    means = []
    for number in range(400):
        sent = [protection.apply(update, k, a_round(number), Seeded(0)) for k in range(CLIENTS)]
        means.append(torch.stack([each.values for each in sent]).mean(dim=0))
    found = torch.stack(means)
    assert float(found.mean()) == pytest.approx(0.1, rel=0.05)
    assert float(found.var()) == pytest.approx(4 * 0.1**2 / clients, rel=0.1)


def test_a_curious_client_is_told_who_sent_what() -> None:
    """What it reads is Σ_k weights_k · u_k, a row of weights for each of the others."""
    weights = [3, 1, 4, 1, 5]
    for text in ("compression:keep=0.3", "compression:keep=0.3,unbiased=false"):
        protection = parse_protection(text)
        for curious in (0, 3):
            result = protection.run_round(updates(), weights, a_round(), curious=curious)
            (seen,) = protection.observe(result.transcript, Adversary.CLIENT)
            assert isinstance(seen.weights, torch.Tensor)
            others = [client for client in range(CLIENTS) if client != curious]
            expected = (seen.weights * updates()[others]).sum(dim=0)
            torch.testing.assert_close(seen.update, expected, atol=1e-12, rtol=0)
            for row, client in zip(seen.weights, others, strict=True):
                known = protection.knowledge(a_round(), SIZE, client).known
                assert known is not None
                assert torch.equal(row, known.double() * (weights[client] / 14))
            assert seen.known is not None
            assert torch.equal(seen.known, seen.weights.ne(0).any(0))


def test_two_clients_read_each_others_places_alone() -> None:
    protection, info = parse_protection("compression:keep=0.3"), RoundInfo.new([0, 1], Seeded(1))
    (seen,) = protection.observe_updates(
        updates()[:2], None, Adversary.CLIENT, entropy=Seeded(0), round=info, curious=1
    )
    assert seen.weights == (0.5,)
    assert seen.known is not None
    other = protection.knowledge(info, SIZE, 0).known
    assert other is not None
    assert torch.equal(seen.known, other)


def test_the_mean_comes_back_where_someone_was_to_send() -> None:
    """Everyone can tell these places, whoever dropped out, so they cost no byte."""
    protection, info = parse_protection("compression:keep=0.3"), a_round()
    plain = Protection().run_round(updates(torch.float32), None, info).transcript
    header = len(plain.messages[-1].body) - 4 * SIZE
    due = torch.zeros(SIZE, dtype=torch.bool)
    for client in range(CLIENTS):
        known = protection.knowledge(info, SIZE, client).known
        assert known is not None
        due |= known
    assert not due.all()
    for drops in ({}, {0: 0}):
        sent = protection.run_round(updates(torch.float32), None, info, drops=drops).transcript
        assert {len(m.body) - header for m in sent.messages if m.sender == SERVER} == {
            4 * int(due.sum())
        }
        for message in sent.messages:
            if message.sender != SERVER:
                own = protection.knowledge(info, SIZE, message.sender).known
                assert own is not None
                assert len(message.body) == header + 4 * int(own.sum())


def test_a_client_that_sends_other_places_than_its_own_is_named() -> None:
    protection, info = parse_protection("compression:keep=0.5"), a_round()
    replies: dict[int, Any] = {
        client: protection.client(client, info, SIZE).step(b"", torch.zeros(SIZE))
        for client in range(CLIENTS)
    }
    with pytest.raises(InvalidInput, match=r"client 2 sent \d+ coordinates .* where \d+ of 60"):
        protection.server(info, SIZE).step({**replies, 2: replies[2][:-4]})


# Text


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_back(text: str) -> None:
    protection = parse_protection(text)
    assert parse_protection(protection.describe()) == protection


def test_what_texts_mean() -> None:
    assert parse_protection("randomization:variance=1e-3") == Protection((Randomization(1e-3),))
    assert parse_protection("compression:keep=0.1") == Protection((Compression(0.1),))
    assert parse_protection("compression:drop=1e-12").transforms == (Compression.dropping(1e-12),)
    assert parse_protection("secret-sharing:bound=0.1") == Protection((BoundedMask(0.1),))
    assert parse_protection("secret-sharing") == Protection((), SecretSharing())
    assert parse_protection("plain") == parse_protection("none") == Protection()
    assert parse_protection("paillier:bits=4096,mode=blind").transport == Paillier(4096, "blind")
    assert parse_protection("randomization:variance=1e+1+plain").transforms == (
        Randomization(10.0),
    )


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("", UnknownName, "known: compression"),
        ("randomisation:variance=1", UnknownName, "did you mean 'randomization'"),
        ("randomization", InvalidInput, "randomization:variance=1e-3"),
        ("randomization:varience=1", UnknownName, "did you mean 'variance'"),
        ("randomization:variance=x", InvalidInput, "cannot be read"),
        ("compression:keep=2", InvalidInput, "keep"),
        ("compression", InvalidInput, "keep or drop"),
        ("compression:keep=0.1,drop=0.9", InvalidInput, "keep or drop"),
        ("compression:keep=0.1,unbiased=maybe", InvalidInput, "cannot be read"),
        ("secret-sharing:bound=1,ring_bits=32", InvalidInput, "takes no ring_bits"),
        ("secret-sharing+compression:keep=0.1", InvalidInput, "transport last"),
        ("secret-sharing+paillier", InvalidInput, "two transports"),
        ("paillier:bits=1024", TrilemmaError, "below the floor of 2048"),
        ("none+plain", InvalidInput, "leave none out"),
    ],
)
def test_texts_that_mean_nothing(text: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        parse_protection(text)


def test_caveats_stand_beside_what_is_weak() -> None:
    assert Protection().caveats == ()
    assert "weak" in parse_protection("secret-sharing:bound=1").caveats[0]
    assert "reads the sum" in parse_protection("compression:keep=0.1+secret-sharing").caveats[0]
    assert "one client" in parse_protection("paillier").caveats[0]


# Contradictions and bad input


@pytest.mark.parametrize(
    ("transforms", "transport", "why"),
    [
        ((TopK(0.1),), SecretSharing(), "by their value"),
        ((TopK(0.1),), Paillier(), "by their value"),
        ((TopK(0.1), BoundedMask(1.0)), Plain(), "by their value"),
        ((BoundedMask(1.0),), SecretSharing(), "add nothing"),
        ((Randomization(1.0), BoundedMask(1.0)), Plain(), "both are noise"),
        ((Compression(0.5), TopK(0.5)), Plain(), "both are compression"),
        (
            (Compression(0.5), Randomization(1.0, clip=1.0)),
            Plain(),
            "put the transform that clips",
        ),
        ((Compression([0.5, 0.1]), Randomization(1.0)), Plain(), "noise before"),
        ((Randomization(1e-12),), SecretSharing(), "lost on the transport's grid"),
    ],
)
def test_contradictions_are_refused(transforms: Any, transport: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Protection(transforms, transport)


@pytest.mark.parametrize("text", ["none", "secret-sharing", PAILLIER])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_named(text: str, bad: float, key: PrivateKey) -> None:
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    rows = updates()
    rows[3, 7] = bad
    with pytest.raises(InvalidInput, match="update of client 3 contains NaN or infinity"):
        protection.run_round(rows, None, a_round(), secret=secret)
    # and nothing of it is left: the same round runs with a sound update
    protection.run_round(updates(), None, a_round(), secret=secret)


def test_mixed_lengths_are_named() -> None:
    rows = [torch.zeros(3), torch.zeros(3), torch.zeros(4), torch.zeros(3), torch.zeros(3)]
    with pytest.raises(InvalidInput, match="one length"):
        Protection().run_round(rows, None, a_round())
    with pytest.raises(InvalidInput, match="5 participants, got 3 updates"):
        Protection().run_round(rows[:3], None, a_round())
    client = Protection().client(0, a_round(), 3)
    with pytest.raises(InvalidInput, match=r"shape \(4,\), but this round is for \(3,\)"):
        client.step(b"", torch.zeros(4))


@pytest.mark.parametrize("weight", [0, -1, 2.5, True])
def test_impossible_weights_are_named(weight: Any) -> None:
    for text in ("none", "secret-sharing"):
        with pytest.raises(InvalidInput, match="weight"):
            parse_protection(text).run_round(updates(), [1, 1, weight, 1, 1], a_round())


def test_weights_may_be_numpys() -> None:
    weights = np.array([3, 1, 4, 1, 5])
    result = parse_protection("secret-sharing").run_round(updates(), weights.tolist(), a_round())
    same_again = parse_protection("secret-sharing").run_round(updates(), list(weights), a_round())
    assert torch.equal(result.mean, same_again.mean)


def test_weights_above_the_cap_are_refused_not_wrapped(key: PrivateKey) -> None:
    for text in ("secret-sharing:max_weight=100", PAILLIER):
        secret = key if "paillier" in text else None
        protection = parse_protection(text)
        with pytest.raises(InvalidInput, match="add up to 105"):
            protection.run_round(updates(), [1, 1, 1, 2, 100], a_round(), secret=secret)
        with pytest.raises(InvalidInput, match="max_weight = 100"):
            protection.run_round(updates(), [1, 1, 1, 1, 101], a_round(), secret=secret)


def test_bounded_masks_need_everyone_and_equal_weights() -> None:
    protection = parse_protection("secret-sharing:bound=0.1")
    with pytest.raises(InvalidInput, match="one weight"):
        protection.run_round(updates(), [1, 1, 1, 1, 2], a_round(), entropy=Seeded(1))
    with pytest.raises(InvalidInput, match="4 of 5 answered"):
        protection.run_round(updates(), None, a_round(), entropy=Seeded(1), drops={2: 0})
    alone = protection.observe_updates(
        updates()[:1],
        None,
        Adversary.SERVER,
        entropy=Seeded(1),
        round=RoundInfo.new([0], Seeded(0)),
    )
    assert [each.clients for each in alone] == [1]


def test_plain_messages_that_were_altered_are_named() -> None:
    info = a_round()
    made = {c: Protection().client(c, info, 4) for c in range(3)}
    replies: dict[int, Any] = {
        c: each.step(b"", torch.full((4,), float(c))) for c, each in made.items()
    }
    with pytest.raises(ProtocolViolation, match="each stage is answered once"):
        made[0].step(b"", torch.zeros(4))
    for forged, why in (
        (replies[0][:40], "cut short"),
        (replies[0][:-1], "whole numbers"),
        (replies[1], "must send 'PLN' now, got 'PLN' of sender 1"),
        (replies[0][:-4], "all must train the same model"),
    ):
        with pytest.raises(TrilemmaError, match=why):
            Protection().server(info, 4).step({**replies, 0: forged})
    other = Protection().client(0, a_round(number=1), 4)
    with pytest.raises(ProtocolViolation, match="another round"):
        Protection().server(info, 4).step({**replies, 0: other.step(b"", torch.zeros(4))})  # type: ignore[dict-item]
    state = made[0].export()
    with pytest.raises(ProtocolViolation, match="answered once"):
        Protection().restore(state, 0, info, 4).step(b"", torch.zeros(4))


def test_clients_that_disagree_on_places_cannot_be_summed() -> None:
    info = a_round()
    half, third = Protection((Compression(0.5),)), Protection((Compression(0.3),))
    replies: dict[int, Any] = {
        0: half.client(0, info, 9).step(b"", torch.zeros(9)),
        1: half.client(1, info, 9).step(b"", torch.zeros(9)),
        2: third.client(2, info, 9).step(b"", torch.zeros(9)),
    }
    with pytest.raises(ProtocolViolation, match="the settings differ"):
        half.server(info, 9).step(replies)


def test_plain_updates_come_back() -> None:
    for dtype in (np.float32, np.float64):
        sent = Payload(np.array([1.5, -2.0], dtype), 7, np.array([3, 900]), 1000)
        got = read_update(b"".join(write_update(sent)))
        assert (got.weight, got.size) == (7, 1000)
        assert got.values.tolist() == [1.5, -2.0]
        assert got.positions is not None
        assert got.positions.tolist() == [3, 900]


# Paillier's own


def test_paillier_refuses_what_it_should(key: PrivateKey) -> None:
    info, protection = a_round(), parse_protection(PAILLIER)
    with pytest.raises(InvalidInput, match="trilemma keys new"):
        protection.client(0, info, 3)
    with pytest.raises(InvalidInput, match="public key, got PrivateKey"):
        protection.server(info, 3, public=key)
    with pytest.raises(TrilemmaError, match="asks for 3072"):
        parse_protection("paillier").client(0, info, 3, secret=key)
    with pytest.raises(InvalidInput, match="mode"):
        Paillier(mode="open")  # type: ignore[arg-type]
    for transport in (protection.transport,):
        with pytest.raises(InvalidInput, match="clip_range of 1"):
            transport.client(0, info, key, System()).step(b"", Payload(np.array([1.5]), 1))


def test_altered_and_foreign_ciphertexts_are_named(key: PrivateKey) -> None:
    info, protection = a_round(), parse_protection(PAILLIER)
    stranger = PrivateKey.generate(System(), bits=2048)
    replies: dict[int, Any] = {
        c: protection.client(c, info, 3, secret=key).step(b"", torch.zeros(3)) for c in range(3)
    }
    foreign = protection.client(0, info, 3, secret=stranger).step(b"", torch.zeros(3))
    zeros = bytearray(replies[0])
    zeros[-512:] = bytes(512)
    for forged, why in ((foreign, "same key file"), (bytes(zeros), "outside 1"), (b"", "not a")):
        server = protection.server(info, 3, public=key.public)
        with pytest.raises(TrilemmaError, match=why):
            server.step({**replies, 0: forged})  # type: ignore[dict-item]
        with pytest.raises(ProtocolViolation, match="is over"):
            server.step(replies)


def test_a_paillier_client_opens_one_sum(key: PrivateKey) -> None:
    info, protection = a_round(), parse_protection(PAILLIER)
    clients = {c: protection.client(c, info, 3, secret=key) for c in range(3)}
    server = protection.server(info, 3, public=key.public)
    asked = server.step({c: each.step(b"", torch.zeros(3)) for c, each in clients.items()})  # type: ignore[misc]
    assert not isinstance(asked, Released)
    (inbox,) = asked.values()
    state = clients[0].export()
    clients[0].step(inbox)
    with pytest.raises(ProtocolViolation, match="opens one sum a round"):
        clients[0].step(inbox)
    restored = protection.restore(state, 0, info, 3, secret=key)
    assert isinstance(restored.step(inbox), bytes)
    with pytest.raises(ProtocolViolation, match="another round"):
        protection.restore(state, 0, a_round(1), 3, secret=key)
    with pytest.raises(SecretExposure):
        clients[1].__reduce__()


def test_a_transcript_without_a_curious_client_says_so() -> None:
    result = Protection().run_round(updates(), None, a_round())
    seen = result.transcript
    bare = Transcript(seen.round, seen.size, seen.messages, seen.released, seen.weights)
    with pytest.raises(InvalidInput, match="curious"):
        Protection().observe(bare, Adversary.CLIENT)
    with pytest.raises(InvalidInput, match="takes no part"):
        Protection().run_round(updates(), None, a_round(), curious=17)
