"""Pinned identities: a server that swaps keys is noticed where nodes know each other's."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.deployment.nodes.driver import Federation, update_of
from tests.deployment.nodes.pins import Config, pin

from trilemma.crypto.masking import KeyPair
from trilemma.deployment.nodes.identities import NodeIdentity
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.entropy import System
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients
from trilemma.protection.transports.wire import HEADER_BYTES, pack, unpack

NODES = (3, 40, 2**63 + 5, 2**64 - 9)
SHARING = Terms.of("secret-sharing:max_weight=100", weighting="equal")


@pytest.fixture
def pinned(tmp_path: Path) -> Config:
    return pin(tmp_path, NODES)


def swap_keys(node: int, stage: Stage) -> Stage:
    """A server that shows every client its own keys in place of the first client's."""
    blob = stage.blobs["update"]
    if node == stage.cohort[0] or blob[4:7] != b"KEY":
        return stage
    ours = KeyPair.generate(System()).public + KeyPair.generate(System()).public
    head, keys = blob[:HEADER_BYTES], unpack(blob[HEADER_BYTES:])
    return replace(stage, blobs={"update": head + pack({**keys, 0: ours + keys[0][64:]})})


def test_swapped_keys_are_refused_where_identities_are_pinned(pinned: Config) -> None:
    federation = Federation(SHARING, pinned, on_stage=swap_keys)
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert (
        sum("are not signed by a pinned peer" in refusal for refusal in federation.refusals) == 3
    )
    assert not [item for item in federation.sent if item.blobs["update"][4:7] == b"MSK"]


def test_an_honest_server_passes_pinned_identities(pinned: Config) -> None:
    federation = Federation(SHARING, pinned)
    for number in (1, 2):
        mean = federation.round(number).released["update"].mean
        expected = torch.stack([update_of(node) for node in NODES]).mean(0)
        torch.testing.assert_close(mean.float(), expected, atol=1e-4, rtol=0)
    assert not federation.refusals


def test_without_pins_swapped_keys_pass_unnoticed() -> None:
    """The reason for pins: the clients share their secrets with the server's own keys."""
    federation = Federation(SHARING, {node: {} for node in NODES}, on_stage=swap_keys)
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert not [refusal for refusal in federation.refusals if "pinned" in refusal]
    kinds = [item.blobs["update"][4:7] for item in federation.sent]
    assert kinds.count(b"SHR") >= 3


def opened(key: Path, peers: Path) -> None:
    key.chmod(0o644)


def no_key(key: Path, peers: Path) -> None:
    key.write_text("nothing")


def no_peers(key: Path, peers: Path) -> None:
    peers.write_text("")


def no_file(key: Path, peers: Path) -> None:
    peers.unlink()


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (opened, "is open to other users; run chmod 600"),
        (no_key, "is no plain PEM key"),
        (no_peers, "must hold an Ed25519 key .* got Ed25519PrivateKey and 0 such keys"),
        (no_file, "cannot be read"),
    ],
)
def test_bad_files_are_told(
    harm: Callable[[Path, Path], None], sentence: str, pinned: Config
) -> None:
    files = pinned[NODES[0]]
    key, peers = Path(files["trilemma-identity"]), Path(files["trilemma-peers"])
    harm(key, peers)
    with pytest.raises(InvalidInput, match=sentence):
        NodeIdentity.load(key, peers)


@pytest.mark.parametrize("spoilt", ["identity", "peers"])
def test_a_key_of_an_unknown_kind_is_one_sentence(pinned: Config, spoilt: str) -> None:
    """Ed25519's number is 1.3.101.112; nobody's is 1.3.101.64."""
    paths = {name: Path(pinned[3][f"trilemma-{name}"]) for name in ("identity", "peers")}
    lines = paths[spoilt].read_text().splitlines()
    data = b64decode(lines[1]).replace(b"\x2b\x65\x70", b"\x2b\x65\x40")
    paths[spoilt].write_text("\n".join([lines[0], b64encode(data).decode(), *lines[2:]]))
    with pytest.raises(InvalidInput, match="is no plain PEM key"):
        NodeIdentity.load(paths["identity"], paths["peers"])


def test_a_peer_that_is_named_is_checked_alone(pinned: Config) -> None:
    """In a graph the server names identities, so that a node need not try all of them."""
    loaded = {
        node: NodeIdentity.load(
            Path(pinned[node]["trilemma-identity"]), Path(pinned[node]["trilemma-peers"])
        )
        for node in NODES
    }
    mine, other, third = (loaded[node] for node in NODES[:3])
    assert mine.knows(7, other.public)
    assert not mine.knows(7, mine.public), "nobody else is this node"
    with pytest.raises(ProtocolViolation, match="client 7 are not signed by a pinned peer"):
        mine.check(7, b"keys", other.sign(b"keys"), third.public)
    assert mine.check(7, b"keys", other.sign(b"keys"), other.public) == other.public
    with pytest.raises(ProtocolViolation, match="client 8 are not signed by a pinned peer"):
        mine.check(8, b"keys", other.sign(b"keys"), other.public)


@pytest.mark.slow
def test_a_large_cohort_of_nodes_draws_a_graph(tmp_path: Path) -> None:
    """Seats are the server's, but keys are signed for them: moved ones are noticed."""
    nodes = range(1000, 1110)
    terms = Terms.of("secret-sharing:max_weight=1000", weighting="equal", threshold=99)
    config = pin(tmp_path, nodes)
    federation = Federation(terms, config)
    made = federation.round(1)
    assert not federation.refusals
    expected = torch.stack([update_of(node) for node in nodes]).mean(0)
    torch.testing.assert_close(made.released["update"].mean.float(), expected, atol=1e-4, rtol=0)
    sharers = [item for item in federation.sent if item.blobs["update"][4:7] == b"SHR"]
    assert {len(unpack(sharer.blobs["update"][HEADER_BYTES:])) for sharer in sharers} < set(
        range(28)
    )

    def moved(node: int, stage: Stage) -> Stage:
        blob = stage.blobs["update"]
        if node % 2 or blob[4:7] != b"KEY":
            return stage
        head, keys = blob[:HEADER_BYTES], unpack(blob[HEADER_BYTES:])
        return replace(stage, blobs={"update": head + pack({**keys, 1: keys[3], 3: keys[1]})})

    lying = Federation(terms, config, on_stage=moved)
    with pytest.raises(TooFewClients):
        lying.round(2)
    assert {"not signed by a pinned peer" in refusal for refusal in lying.refusals} == {True}
    assert not [item for item in lying.sent if item.blobs["update"][4:7] == b"MSK"]
