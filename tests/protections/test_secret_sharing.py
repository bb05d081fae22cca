"""Secure aggregation: every dropout, a server that cheats, and what a masked update looks like."""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from trilemma.crypto.masking import KeyPair, RoundContext, Seed, unseal
from trilemma.crypto.sealed import Sealed
from trilemma.crypto.shamir import SHARE_BYTES, Share, combine
from trilemma.entropy import Seeded, System
from trilemma.errors import (
    ForeignCiphertext,
    InvalidInput,
    ProtocolViolation,
    SecretExposure,
    TooFewClients,
)
from trilemma.protections.protection import Protection
from trilemma.protections.protocol import Aggregate, Payload, RoundInfo, ServerSession
from trilemma.protections.transports.secret_sharing.client import SharingClient
from trilemma.protections.transports.secret_sharing.identity import Identity
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.protections.transports.wire import HEADER_BYTES, SERVER, pack, unpack, write_message

SHARING = SecretSharing(clip_range=1.0)
STEPS = ("advertise", "share", "masked", "unmask")


def a_round(clients: int = 5, threshold: int = 3, number: int = 0) -> RoundInfo:
    return RoundInfo("test", number, tuple(range(clients)), threshold, mask_seed=1)


def payload(client: int, size: int = 3) -> Payload:
    rng = np.random.default_rng(client)
    return Payload(rng.uniform(-1, 1, size), weight=client + 1)


def open_clients(info: RoundInfo, label: bytes = b"") -> dict[int, Any]:
    return {c: SHARING.client(c, info, None, System(), label) for c in info.participants}


def play(
    info: RoundInfo, drops: Mapping[int, int], size: int = 3
) -> tuple[Aggregate | None, dict[int, list[bytes]]]:
    """One round by hand, with the messages of each client; None if it is refused."""
    clients, server = open_clients(info), SHARING.server(info)
    sent: dict[int, list[bytes]] = {c: [] for c in clients}
    inboxes: Mapping[int, bytes] = dict.fromkeys(clients, b"")
    for step in range(4):
        replies = {}
        for client, inbox in inboxes.items():
            if step < drops.get(client, 9):
                replies[client] = clients[client].step(
                    inbox, payload(client, size) if step == 2 else None
                )
                sent[client].append(replies[client])
        try:
            outcome = server.step(replies)
        except TooFewClients:
            return None, sent
        if isinstance(outcome, Aggregate):
            return outcome, sent
        inboxes = outcome
    raise AssertionError("four steps must end a round")


def check_pattern(pattern: tuple[int, ...]) -> bool:
    """Whether the round ended with a sum, which must be that of integer arithmetic."""
    drops = {client: step for client, step in enumerate(pattern) if step < 4}
    outcome, _ = play(a_round(), drops)
    alive = [sum(step > stage for step in pattern) for stage in range(4)]
    if min(alive) < 3:
        assert outcome is None
        return False
    assert outcome is not None
    survivors = tuple(c for c, step in enumerate(pattern) if step > 2)
    assert outcome.clients == survivors
    assert outcome.weight == sum(c + 1 for c in survivors)
    units = sum(
        (c + 1) * np.rint(payload(c).values / SHARING.step_size()).astype(object)
        for c in survivors
    )
    exact = np.array(units, dtype=np.float64) * SHARING.step_size() / outcome.weight
    np.testing.assert_allclose(outcome.mean, exact, rtol=1e-14, atol=1e-300)
    return True


def test_every_pattern_of_dropouts_at_every_step() -> None:
    """Five clients, threshold three, each silent from step 0, 1, 2 or 3 on, or never."""
    ended = Counter(check_pattern(pattern) for pattern in itertools.product(range(5), repeat=5))
    # A sum needs three clients that stay to the end: C(5,3)·4² + C(5,4)·4 + 1 of 5⁵ patterns.
    assert ended == {True: 181, False: 2944}


# What one masked update looks like


def masked_words(number: int, values: float, size: int = 4000) -> np.ndarray[Any, Any]:
    info = a_round(3, 2, number)
    clients, server = open_clients(info), SHARING.server(info)
    keys = server.step({c: clients[c].step(b"") for c in clients})
    assert not isinstance(keys, Aggregate)
    boxes = server.step({c: clients[c].step(keys[c]) for c in clients})
    assert not isinstance(boxes, Aggregate)
    sent = clients[0].step(boxes[0], Payload(np.full(size, values), 1))
    assert isinstance(sent, bytes)
    return np.frombuffer(sent[HEADER_BYTES:], "<u4")


@pytest.mark.parametrize("values", [0.0, 1.0, -0.3])
def test_a_single_masked_update_is_uniform_whatever_the_update(values: float) -> None:
    words = np.concatenate([masked_words(number, values) for number in range(5)])
    for shift in (0, 24):  # the lowest and the highest byte of each word
        counts = np.bincount((words >> shift) & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_two_rounds_of_the_same_update_share_no_mask() -> None:
    first, second = masked_words(0, 0.25), masked_words(1, 0.25)
    again = masked_words(0, 0.25)  # fresh keys even where run and number repeat
    for other in (second, again):
        # Equal masks would give a constant difference; independent ones agree by accident only.
        assert len(np.unique(first - other)) > 0.99 * len(first)


def test_a_masked_update_takes_four_bytes_a_parameter() -> None:
    _, sent = play(a_round(), {}, size=1000)
    assert len(sent[0][2]) == HEADER_BYTES + 4 * 1001


# A server that cheats


def until(stage: str, info: RoundInfo | None = None) -> tuple[dict[int, Any], Any, Any]:
    """Clients about to do `stage`, the honest server and the inboxes it made."""
    info = info or a_round()
    clients, server = open_clients(info), SHARING.server(info)
    inboxes: Any = dict.fromkeys(clients, b"")
    for step in range(STEPS.index(stage)):
        given = {c: payload(c) if step == 2 else None for c in clients}
        inboxes = server.step({c: clients[c].step(inboxes[c], given[c]) for c in clients})
    return clients, server, inboxes


def survivors(client: SharingClient, listed: list[int]) -> bytes:
    return write_message("SUR", client.digest, SERVER, np.array(listed, "<u8").tobytes())


def test_a_server_that_asks_for_both_kinds_of_share_gets_one() -> None:
    clients, _, _ = until("unmask")
    victim = 4
    revealed: dict[str, list[bytes]] = {"seed": [], "key": []}
    for client in range(4):
        first = clients[client].step(survivors(clients[client], [0, 1, 2, 3, victim]))
        revealed["seed"].append(unpack(first[HEADER_BYTES:])[victim])
        with pytest.raises(ProtocolViolation, match="answers no more"):
            clients[client].step(survivors(clients[client], [0, 1, 2, 3]))
    shares = [Share.from_bytes(piece) for piece in revealed["seed"]]
    assert len(combine(shares, 3)) == 32, "the self-mask, as the protocol has it"
    assert revealed["key"] == []


def test_lists_that_split_the_clients_cannot_yield_both_kinds() -> None:
    """Two lists of survivors, each shown to some clients: 3 + 3 answers would take 6 clients."""
    clients, _, _ = until("unmask")
    victim = 4
    seed: list[Share] = []
    key: list[Share] = []
    for client in range(4):  # the victim itself is never asked
        alive = client < 2
        listed = [0, 1, 2, 3, victim] if alive else [0, 1, 2, 3]
        shares = unpack(clients[client].step(survivors(clients[client], listed))[HEADER_BYTES:])
        (seed if alive else key).append(Share.from_bytes(shares[victim]))
    for kind in (seed, key):
        with pytest.raises(InvalidInput, match="3 shares are needed"):
            combine(kind, 3)


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([1, 2, 3, 4], "leaves out client 0"),
        ([0, 1, 2, 9], "holds client 9"),
        ([0, 1, 1, 2], "twice"),
    ],
)
def test_a_forged_survivor_list_gets_nothing(listed: list[int], why: str) -> None:
    clients, _, _ = until("unmask")
    with pytest.raises(ProtocolViolation, match=why):
        clients[0].step(survivors(clients[0], listed))
    with pytest.raises(ProtocolViolation, match="answers no more"):
        clients[0].step(survivors(clients[0], [0, 1, 2, 3, 4]))


def test_a_short_survivor_list_gets_nothing() -> None:
    clients, _, _ = until("unmask")
    with pytest.raises(TooFewClients, match="fewer than its threshold of 3"):
        clients[0].step(survivors(clients[0], [0, 1]))
    with pytest.raises(ProtocolViolation, match="answers no more"):
        clients[0].step(survivors(clients[0], [0, 1, 2]))


def test_a_client_leaves_when_its_key_is_swapped() -> None:
    _, _, inboxes = until("share")
    table = unpack(inboxes[0][HEADER_BYTES:])
    for forged, why in (
        ({**table, 0: bytes(64)}, "another key"),
        ({**table, 2: table[3]}, "the same key"),
        ({**table, 7: bytes(64)}, "holds client 7"),
        ({k: v for k, v in table.items() if k}, "leaves out client 0"),
    ):
        fresh, _, _ = until("share")
        own = unpack(fresh[0].export())
        shown = dict(forged)
        if 0 in shown and shown[0] == table[0]:
            public = KeyPair(own[3]).public + KeyPair(own[4]).public
            shown[0] = public
        message = write_message("KEY", fresh[0].digest, SERVER, pack(shown))
        with pytest.raises(ProtocolViolation, match=why):
            fresh[0].step(message)


def test_altered_foreign_and_replayed_messages_have_names() -> None:
    clients, _, inboxes = until("masked")
    bent = bytearray(inboxes[0])
    bent[-1] ^= 1
    with pytest.raises(ForeignCiphertext, match="altered"):
        clients[0].step(bytes(bent), payload(0))
    # a share sealed for another client, redirected
    clients, _, inboxes = until("masked")
    with pytest.raises((ForeignCiphertext, ProtocolViolation)):
        clients[0].step(inboxes[1], payload(0))
    # shares of another round
    clients, _, _ = until("masked")
    _, _, older = until("masked", a_round(number=8))
    with pytest.raises(ProtocolViolation, match="another round"):
        clients[0].step(older[0], payload(0))
    # a message of an earlier step
    clients, _, inboxes = until("unmask")
    replayed = write_message("BOX", clients[0].digest, SERVER, b"")
    with pytest.raises(ProtocolViolation, match="must send 'SUR' now, got 'BOX'"):
        clients[0].step(replayed)
    with pytest.raises(ProtocolViolation, match="not a message"):
        until("share")[0][0].step(b"hello")


def test_the_server_names_what_clients_do_wrong() -> None:
    info = a_round()
    clients, server = open_clients(info), SHARING.server(info)
    adverts = {c: clients[c].step(b"") for c in clients}
    with pytest.raises(ProtocolViolation, match="must send 'ADV' now"):
        server.step({**adverts, 0: adverts[1]})
    with pytest.raises(ProtocolViolation, match="round 0 is over"):
        server.step(adverts)

    clients, server, inboxes = until("masked")
    replies = {c: clients[c].step(inboxes[c], payload(c)) for c in clients}
    short = write_message("MSK", clients[2].digest, 2, bytes(8))
    with pytest.raises(InvalidInput, match="client 2 sent 1 coordinates, the clients before it 3"):
        server.step({**replies, 2: short})

    clients, server, inboxes = until("unmask")
    replies = {c: clients[c].step(inboxes[c]) for c in clients}
    bent = bytearray(replies[0])
    bent[-10] ^= 1
    with pytest.raises(ForeignCiphertext, match="do not give a secret"):
        server.step({**replies, 0: bytes(bent)})

    clients, server, inboxes = until("unmask")
    late = {c: clients[c].step(inboxes[c]) for c in clients}
    fewer = SHARING.server(a_round())
    with pytest.raises(ProtocolViolation, match="must send 'ADV'"):
        fewer.step(late)


def test_clients_with_unlike_settings_cannot_be_summed() -> None:
    info = a_round(3, 2)
    finer = SecretSharing(clip_range=1.0, precision_bits=12)
    adverts = {
        0: SHARING.client(0, info, None, System()).step(b""),
        1: finer.client(1, info, None, System()).step(b""),
        2: SHARING.client(2, info, None, System()).step(b""),
    }
    with pytest.raises(ProtocolViolation, match="the settings differ"):
        SHARING.server(info).step(adverts)  # type: ignore[arg-type]


# Bad input


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_threshold_of_half_or_less_is_refused(threshold: int) -> None:
    info = a_round(4, threshold)
    for make in (lambda: SHARING.server(info), lambda: SHARING.client(0, info, None, System())):
        with pytest.raises(InvalidInput, match="above half of the 4 clients"):
            make()


def test_a_threshold_above_all_clients_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"1 .. 4"):
        a_round(4, 5)


@pytest.mark.parametrize("bad", [1.1, float("nan"), float("inf")])
def test_values_out_of_range_are_named(bad: float) -> None:
    clients, _, inboxes = until("masked")
    with pytest.raises(InvalidInput, match=r"client 0 .* clip_range of 1"):
        clients[0].step(inboxes[0], Payload(np.array([0.0, bad, 0.0]), 1))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"clip_range": 0.0}, "clip_range"),
        ({"ring_bits": 48}, "32 or 64"),
        ({"precision_bits": 40}, "bits"),
        ({"max_weight": 10**6}, "wrap round"),
    ],
)
def test_impossible_transports_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        SecretSharing(**settings)


def test_sixty_four_bits_carry_large_weights() -> None:
    wide = Protection((), SecretSharing(ring_bits=64, precision_bits=24, max_weight=10**9))
    info = RoundInfo.new(range(3), Seeded(0))
    updates = torch.rand((3, 50), generator=torch.Generator().manual_seed(1)).double() * 2 - 1
    weights = [10**8, 3, 7 * 10**8]
    mean = wide.run_round(updates, weights, info).mean
    exact = sum(w * u for w, u in zip(weights, updates, strict=True)) / sum(weights)
    assert torch.allclose(mean, torch.as_tensor(exact), atol=wide.transport.step_size() / 2)


# Secrets


def reachable(root: object) -> list[object]:
    """Everything that an object holds, at any depth, code and types left out."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen[id(each)] = each
        todo += gc.get_referents(each)
    return list(seen.values())


def test_a_server_session_never_holds_a_secret() -> None:
    info = a_round()
    clients, server = open_clients(info), SHARING.server(info)
    secrets = set()
    for client in clients.values():
        fields = unpack(client.export())
        secrets |= {fields[3], fields[4], fields[5]}
    inboxes: Any = dict.fromkeys(clients, b"")
    for step in range(4):
        replies = {
            c: clients[c].step(inboxes[c], payload(c) if step == 2 else None)
            for c in inboxes
            if not (c == 4 and step >= 2)  # one drops, so that a pair key is recovered
        }
        inboxes = server.step(replies)
        held = reachable(server)
        assert not [each for each in held if isinstance(each, Sealed)]
        blob = b"".join(bytes(each) for each in held if isinstance(each, bytes | bytearray))
        assert not any(secret in blob for secret in secrets)
    assert isinstance(inboxes, Aggregate)


def test_a_server_session_cannot_be_given_a_secret() -> None:
    class Careless(ServerSession):
        def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes]:
            self.kept = {"seeds": [Seed.generate(System())]}
            return {}

    with pytest.raises(SecretExposure, match="kept holds one"):
        Careless().step({})


def test_client_sessions_hide() -> None:
    client = open_clients(a_round())[0]
    assert repr(client) == "<SharingClient: hidden>"
    with pytest.raises(SecretExposure):
        client.__reduce__()
    with pytest.raises(InvalidInput, match="System"):
        SHARING.client(0, a_round(), None, Seeded(1))  # type: ignore[arg-type]


def test_a_session_survives_its_process() -> None:
    """Each step in a restored session, as an adapter that stores state between messages does."""
    info = a_round()
    server = SHARING.server(info)
    states = {c: client.export() for c, client in open_clients(info).items()}
    inboxes: Any = dict.fromkeys(states, b"")
    for step in range(4):
        replies: dict[int, Any] = {}
        for c in inboxes:
            session = SHARING.restore(states[c], info, None, System())
            assert session.wants_update == (step == 2)
            replies[c] = session.step(inboxes[c], payload(c) if step == 2 else None)
            states[c] = session.export()
        inboxes = server.step(replies)
    assert isinstance(inboxes, Aggregate)
    assert inboxes.clients == info.participants
    done = SHARING.restore(states[0], info, None, System())
    with pytest.raises(ProtocolViolation, match="has answered"):
        done.step(b"")
    with pytest.raises(ProtocolViolation, match="another round"):
        SHARING.restore(states[0], a_round(number=1), None, System())


def test_shares_have_their_size() -> None:
    clients, _, inboxes = until("unmask")
    reply = unpack(clients[0].step(inboxes[0])[HEADER_BYTES:])
    assert {len(share) for share in reply.values()} == {SHARE_BYTES}


# Pinned identities


def identified(info: RoundInfo) -> dict[int, Identity]:
    made = {c: Identity.generate(System()) for c in info.participants}
    public = {c: each.public for c, each in made.items()}
    return {c: each.pin(public) for c, each in made.items()}


def test_a_server_that_swaps_keys_reads_an_update_without_identities() -> None:
    """Shown, not assumed: the server puts its own keys in the place of everyone else's."""
    info = a_round(3, 2)
    victim = SHARING.client(0, info, None, System())
    advert = unpack_advert(victim.step(b""))
    fakes = {c: (KeyPair.generate(System()), KeyPair.generate(System())) for c in (1, 2)}
    table = {0: advert, **{c: a.public + b.public for c, (a, b) in fakes.items()}}
    digest = info.digest(SHARING.describe().encode() + b"\0")
    sealed = unpack(
        victim.step(write_message("KEY", digest, SERVER, pack(table)))[HEADER_BYTES:]  # type: ignore[index]
    )
    context = RoundContext(info.run, info.number)
    shares = [
        unseal(fakes[c][1], advert[32:], sealed[c], context=context, sender=0, receiver=c)
        for c in (1, 2)
    ]
    seed = combine([Share.from_bytes(each[:SHARE_BYTES]) for each in shares], 2)
    assert seed == unpack(victim.export())[5], "the self-mask is open, and so is the update"


def unpack_advert(message: Any) -> bytes:
    return bytes(message[HEADER_BYTES:])


def test_pinned_identities_stop_a_server_that_swaps_keys() -> None:
    info = a_round(3, 2)
    who = identified(info)
    for swapped, why in ((True, "not signed by it"), (False, "")):
        clients = {c: SHARING.client(c, info, who[c], System()) for c in info.participants}
        server = SHARING.server(info)
        adverts: dict[int, Any] = {c: each.step(b"") for c, each in clients.items()}
        if swapped:
            stranger = Identity.generate(System())
            forged = SHARING.client(2, info, stranger, System()).step(b"")
            adverts[2] = forged
        inboxes: Any = server.step(adverts)
        if swapped:
            with pytest.raises(ProtocolViolation, match=why):
                clients[0].step(inboxes[0])
            continue
        for step in range(1, 4):
            replies: dict[int, Any] = {
                c: clients[c].step(inboxes[c], payload(c) if step == 2 else None) for c in clients
            }
            inboxes = server.step(replies)
        assert isinstance(inboxes, Aggregate)


def test_unsigned_and_unknown_clients_are_left() -> None:
    info = a_round(3, 2)
    who = identified(info)
    signed = {c: SHARING.client(c, info, who[c], System()) for c in (0, 1)}
    unsigned = SHARING.client(2, info, None, System())
    adverts: dict[int, Any] = {c: each.step(b"") for c, each in {**signed, 2: unsigned}.items()}
    inboxes: Any = SHARING.server(info).step(adverts)
    with pytest.raises(ProtocolViolation, match="client 2 are not signed"):
        signed[0].step(inboxes[0])
    alone = SHARING.client(0, info, Identity.generate(System()), System())
    alone.step(b"")
    adverts[0] = SHARING.client(0, info, who[0], System()).step(b"")
    with pytest.raises(ProtocolViolation, match="is not pinned"):
        alone.step(SHARING.server(info).step(adverts)[0])  # type: ignore[index]
    with pytest.raises(InvalidInput, match="takes an Identity"):
        SHARING.client(0, info, b"key", System())
    with pytest.raises(InvalidInput, match="32 bytes"):
        Identity(b"short")
    assert repr(who[0]) == "<Identity: hidden>"
