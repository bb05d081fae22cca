"""What the server of a Flower run can read, and what a node refuses to tell it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.app import Message, RecordDict
from tests.federation.flower.harness import (
    LOSSES,
    MODEL,
    NODES,
    RECORDS,
    DirectGrid,
    fedavg,
    initial,
    mean_of,
    moves,
    small_paillier,
    toy_app,
    train_only,
)

from trilemma.crypto.masking import KeyPair
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.federation.flower import ProtectedGrid, Terms, from_verdict
from trilemma.federation.flower.messages import read_stages, write_stages
from trilemma.federation.nodes.stages import Stage
from trilemma.learning import LocalTraining
from trilemma.protections.protection import Protection
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.protections.transports.wire import HEADER_BYTES, pack, unpack

SHARING = Terms(Protection((), SecretSharing(max_weight=100)), metrics=("train_loss",))


def everything(direct: DirectGrid) -> bytes:
    """All bytes that reached the server."""
    texts = []
    for message in direct.received:
        for record in message.content.values():
            for name, value in record.items():
                texts += [name.encode(), value.data if hasattr(value, "data") else repr(value)]
    return b"\n".join(each.encode() if isinstance(each, str) else each for each in texts)


def secret_numbers() -> list[bytes]:
    """Each client's own update and loss, in the encodings that would give them away."""
    found = []
    for node in NODES:
        step = np.concatenate([each.ravel() for each in moves(node).values()])
        for row in (step, -step):
            found += [row.astype(kind).tobytes()[16:48] for kind in ("<f4", "<f8")]
            found.append(np.rint(row * RECORDS[node] * 32767).astype("<i4").tobytes()[16:48])
        found += [np.float64(LOSSES[node]).tobytes(), repr(LOSSES[node]).encode()]
    return found


def test_secure_aggregation_leaves_the_server_without_updates_keys_or_counts() -> None:
    secrets: list[bytes] = []

    def remember(exchange: int, reply: Message) -> Message:
        for context in direct.contexts.values():
            for record in context.state.config_records.values():
                fields = [unpack(value) for value in record.values() if isinstance(value, bytes)]
                secrets.extend(each[part] for each in fields for part in (3, 4, 5))  # keys, seed
        return reply

    direct = DirectGrid(toy_app(SHARING), on_reply=remember)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(NODES, "weight", 2), atol=1e-4
    )
    received = everything(direct)
    assert len(set(secrets)) == 4 * 3 * 2 * 3, "clients, secrets, lanes, rounds (one ahead)"
    for secret in {*secrets, *secret_numbers()}:
        assert secret not in received
    for message in direct.received:
        assert not message.content.metric_records, "no metric travels in clear"


@pytest.mark.parametrize("mode", ["blind", "reveal"])
def test_paillier_leaves_the_server_without_a_key_or_a_single_update(
    mode: str, key: PrivateKey, key_file: Path
) -> None:
    transport = small_paillier("blind" if mode == "blind" else "reveal")
    terms = Terms(Protection((), transport))
    direct = DirectGrid(toy_app(terms), node_config={"trilemma-key": str(key_file)})
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    train_only().start(grid, initial(), num_rounds=2)
    received = everything(direct)
    for secret in secret_numbers():
        assert secret not in received
    for number in key.reveal():
        for text in (str(number), hex(number)):
            assert text.encode() not in received
        for order in ("little", "big"):
            raw = int(number).to_bytes(64, "little" if order == "little" else "big").strip(b"\0")
            assert raw not in received
    stages = [stage for message in direct.received for stage in read_stages(message.content)]
    kinds = {blob[4:8] for stage in stages for blob in stage.blobs.values()}
    assert kinds == ({b"ENC\0"} if mode == "blind" else {b"ENC\0", b"OPN\0"})
    assert ("OPN" in str(kinds)) == (mode == "reveal"), "a blind server is shown no sum"


def failures(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("exchange", [0, 1, 2, 3])
def test_a_client_that_drops_out_at_any_stage_is_survived(exchange: int) -> None:
    terms = Terms.of(SHARING, threshold=3)
    gone = NODES[1]

    def lose(number: int, message: Message) -> Message | None:
        dead = number >= exchange and message.metadata.dst_node_id == gone
        return None if dead else message

    direct = DirectGrid(toy_app(terms), on_message=lose)
    grid = ProtectedGrid(direct, terms)
    result = train_only().start(grid, initial(), num_rounds=1)
    counted = NODES if exchange == 3 else [node for node in NODES if node != gone]
    expected = mean_of(counted, "weight")
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)
    del direct.contexts[gone]  # FedAvg samples those who are left; their keys are made already
    before = len(direct.sent)
    result = train_only(3).start(grid, initial(), num_rounds=1)
    others = [node for node in NODES if node != gone]
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(others, "weight"), atol=1e-4
    )
    assert len(direct.sent) - before == 2


def test_too_few_survivors_fail_the_round_and_the_next_one_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lose(number: int, message: Message) -> Message | None:
        return None if number == 2 and message.metadata.dst_node_id in NODES[:2] else message

    direct = DirectGrid(toy_app(SHARING), on_message=lose)
    with caplog.at_level(logging.INFO):
        result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    assert "TooFewClients: 2 of 4 clients are left" in failures(caplog)
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(NODES, "weight"), atol=1e-4
    )
    assert list(result.train_metrics_clientapp) == [2]


def changed(message: Message, change: Callable[[Stage], Stage]) -> Message:
    stages = [change(stage) for stage in read_stages(message.content)]
    message.content = RecordDict({**message.content, **write_stages(stages)})
    return message


def cut(stage: Stage) -> Stage:
    return replace(stage, blobs={name: data[:-3] for name, data in stage.blobs.items()})


@pytest.mark.parametrize("transport", ["secret-sharing", "paillier", "plain"])
@pytest.mark.parametrize("fault", ["truncated", "replayed", "foreign", "unprotected"])
def test_a_bad_reply_fails_its_round_by_name_and_no_other(
    transport: str,
    fault: str,
    key: PrivateKey,
    key_file: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    carrier = {
        "secret-sharing": SecretSharing(max_weight=100),
        "paillier": small_paillier(),
        "plain": Protection().transport,
    }[transport]
    terms = Terms(Protection((), carrier))
    kept: list[Message] = []
    second_round = {"secret-sharing": 4, "paillier": 2, "plain": 1}[transport]

    def corrupt(exchange: int, reply: Message) -> Message:
        if reply.metadata.src_node_id != NODES[0] or reply.has_error():
            return reply
        kept.append(reply)
        if exchange != second_round:
            return reply
        if fault == "truncated":
            return changed(reply, cut)
        if fault == "replayed":
            return kept[0]
        if fault == "foreign":
            return changed(reply, lambda stage: replace(stage, run=stage.run + 1))
        reply.content = RecordDict({"arrays": initial()})
        return reply

    config = {"trilemma-key": str(key_file)}
    direct = DirectGrid(toy_app(terms), node_config={**config}, on_reply=corrupt)
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    with caplog.at_level(logging.INFO):
        result = train_only().start(grid, initial(), num_rounds=3)
    assert list(result.train_metrics_clientapp) == [1, 3], "the round in between failed cleanly"
    text = failures(caplog)
    assert any(name in text for name in ("ProtocolViolation:", "InvalidInput:", "ForeignCip"))
    expected = mean_of(NODES, "weight", rounds=2)
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("fault", ["replayed", "truncated", "foreign", "two updates"])
def test_a_node_refuses_bad_messages_by_name(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Message] = []

    def corrupt(exchange: int, message: Message) -> Message:
        if message.metadata.dst_node_id != NODES[0]:
            return message
        seen.append(Message(message.content, 0, "train"))
        if exchange != 4:
            return message
        if fault == "replayed":
            message.content = seen[2].content
        elif fault == "truncated":
            changed(message, cut)
        elif fault == "foreign":
            changed(message, lambda stage: replace(stage, run=5))
        else:
            first = read_stages(message.content)[0]
            message.content = RecordDict({**message.content, **write_stages([first, first])})
        return message

    direct = DirectGrid(toy_app(SHARING), on_message=corrupt)
    with caplog.at_level(logging.WARNING):
        result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    assert f"node {NODES[0]}" in caplog.text
    assert list(result.train_metrics_clientapp) == [1, 2], "the others are enough"
    if fault == "two updates":
        assert "leaves round" in caplog.text
        return
    assert "ProtocolViolation" in caplog.text
    rest = mean_of(NODES[1:], "weight") - MODEL["weight"]
    expected = mean_of(NODES, "weight") + rest
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)


def test_a_node_reveals_one_kind_of_share_once() -> None:
    """A server that asks for a second survivor list gets nothing, in this round or later."""
    direct = DirectGrid(toy_app(SHARING))
    train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    request = direct.sent[3][0]
    node = request.metadata.dst_node_id
    again = direct.app(request, direct.contexts[node])
    assert again.has_error()
    assert "ProtocolViolation" in str(again.error.reason)


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_a_protected_node_refuses_plain_messages(kind: str) -> None:
    direct = DirectGrid(toy_app(SHARING))
    message = Message(RecordDict({"arrays": initial()}), NODES[0], kind)
    reply = direct.app(message, direct.contexts[NODES[0]])
    assert "answers no plain message" in str(reply.error.reason)


def test_a_node_holds_to_its_own_minimum_cohort_and_terms(
    caplog: pytest.LogCaptureFixture,
) -> None:
    direct = DirectGrid(toy_app(SHARING), node_config={"trilemma-min-cohort": 5})
    train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert "summed with 5 clients at least" in caplog.text
    caplog.clear()
    other = Terms.of("none")
    direct = DirectGrid(toy_app(SHARING))
    train_only().start(ProtectedGrid(direct, other), initial(), num_rounds=1)
    assert "but this node is set to [secret-sharing" in caplog.text


def test_a_refusal_does_not_quote_data() -> None:
    terms = Terms.of(Protection((), SecretSharing(max_weight=100, clip_range=0.001)))
    direct = DirectGrid(toy_app(terms))
    train_only().start(ProtectedGrid(direct, terms), initial(), num_rounds=1)
    reasons = {str(each.error.reason) for each in direct.received if each.has_error()}
    assert reasons == {"InvalidInput: the log of the node says why"}


# Pinned identities


@pytest.fixture
def identities(tmp_path: Path) -> dict[int, dict[str, str]]:
    """The node configuration of each node: its own key, and everybody's public keys."""
    keys = {node: Ed25519PrivateKey.generate() for node in NODES}
    peers = tmp_path / "peers.pem"
    public = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    peers.write_bytes(b"".join(key.public_key().public_bytes(*public) for key in keys.values()))
    made = {}
    for node, key in keys.items():
        file = tmp_path / f"{node}.pem"
        file.touch(0o600)
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        made[node] = {"trilemma-identity": str(file), "trilemma-peers": str(peers)}
    return made


def swap_keys(exchange: int, message: Message) -> Message:
    """A server that shows every client its own keys in place of the first client's."""
    ours = KeyPair.generate(System()).public + KeyPair.generate(System()).public

    def swapped(stage: Stage) -> Stage:
        if message.metadata.dst_node_id == stage.cohort[0]:
            return stage
        blobs = dict(stage.blobs)
        for lane in ("update", "metrics"):
            if lane in blobs and blobs[lane][4:7] == b"KEY":
                head, keys = blobs[lane][:HEADER_BYTES], unpack(blobs[lane][HEADER_BYTES:])
                blobs[lane] = head + pack({**keys, 0: ours + keys[0][64:]})
        return replace(stage, blobs=blobs)

    return changed(message, swapped)


def test_swapped_keys_are_refused_where_identities_are_pinned(
    identities: dict[int, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    direct = DirectGrid(toy_app(SHARING), on_message=swap_keys)
    for node, config in identities.items():
        direct.contexts[node].node_config = dict(config)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert not result.train_metrics_clientapp
    assert "are not signed by a pinned peer" in caplog.text
    kinds = {blob[4:7] for each in direct.received if each.has_content()
             for stage in read_stages(each.content) for blob in stage.blobs.values()}  # fmt: skip
    assert b"MSK" not in kinds, "no update left any node"


def test_an_honest_server_passes_pinned_identities(
    identities: dict[int, dict[str, str]],
) -> None:
    direct = DirectGrid(toy_app(SHARING))
    for node, config in identities.items():
        direct.contexts[node].node_config = dict(config)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    expected = mean_of(NODES, "weight", rounds=2)
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)
    assert len(direct.sent) == 4 + 2


def test_without_pins_swapped_keys_pass_unnoticed() -> None:
    """The reason for pins: the clients share their secrets with the server's own keys."""
    direct = DirectGrid(toy_app(SHARING), on_message=swap_keys)
    train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    shared = [each for each in direct.received if each.has_content()]
    kinds = [blob[4:7] for each in shared for stage in read_stages(each.content)
             for blob in stage.blobs.values()]  # fmt: skip
    assert kinds.count(b"SHR") >= 3


# Bad input


def test_fewer_clients_than_the_threshold_are_refused_in_one_sentence() -> None:
    terms = Terms.of(SHARING, threshold=5)
    direct = DirectGrid(toy_app(terms))
    with pytest.raises(InvalidInput, match="4 clients take part, fewer than the 5"):
        train_only().start(ProtectedGrid(direct, terms), initial(), num_rounds=1)
    halved = Terms.of(SHARING, threshold=2)
    with pytest.raises(InvalidInput, match="threshold must lie above half of the 4 clients"):
        train_only().start(ProtectedGrid(direct, halved), initial(), num_rounds=1)
    assert not direct.sent


def test_a_paillier_server_without_a_public_key_is_refused_at_once() -> None:
    terms = Terms(Protection((), small_paillier()))
    with pytest.raises(InvalidInput, match="needs the clients' public key"):
        ProtectedGrid(DirectGrid(toy_app(terms)), terms)


def test_a_metric_that_is_nan_leaves_its_client_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(LOSSES, NODES[0], float("nan"))
    direct = DirectGrid(toy_app(SHARING))
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert "metric 'train_loss' must be a number" in caplog.text
    expected = mean_of(NODES[1:], "weight")
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)


def test_a_verdict_is_read_and_another_training_or_version_refused(tmp_path: Path) -> None:
    training = LocalTraining("fedavg", lr=0.1, steps=5, batch=8)
    verdict = {
        "schema_version": 1,
        "protection": "secret-sharing:max_weight=500",
        "local_training": {"algorithm": "fedavg", "lr": 0.1, "steps": 5, "batch": 8},
    }
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(verdict))
    terms = from_verdict(path, training, metrics=("train_loss",))
    assert terms.protection == Protection((), SecretSharing(max_weight=500))
    assert terms.metrics == ("train_loss",)
    with pytest.raises(InvalidInput, match=r"was measured for .*steps=5.* but this federation"):
        from_verdict(path, replace(training, steps=6))
    assert terms.learning_rate == 1.0, "what was measured is the change of the weights"
    path.write_text(json.dumps({**verdict, "schema_version": 2, "protection": None}))
    with pytest.raises(InvalidInput, match="chose no protection"):
        from_verdict(path, training)
    path.write_text(json.dumps({**verdict, "schema_version": 3}))
    with pytest.raises(InvalidInput, match="version 3, and this release reads versions 1 to 2"):
        from_verdict(path, training)
    path.write_text("[]")
    with pytest.raises(InvalidInput, match="is not a verdict"):
        from_verdict(path, training)
    with pytest.raises(InvalidInput, match="cannot be read"):
        from_verdict(tmp_path / "none.json", training)


def test_terms_check_themselves() -> None:
    for settings, sentence in (
        ({"budget": 1.0}, "a budget needs noise with a clip"),
        ({"metrics": ("num-examples",)}, "which is carried anyway"),
        ({"weighting": "size"}, "weighting must be"),
        ({"min_cohort": 0}, "min_cohort must be at least 1"),
        ({"metric_range": 0.0}, "metric_range"),
        ({"learning_rate": -0.1}, "learning_rate"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            Terms.of("secret-sharing", **settings)
    with pytest.raises(InvalidInput, match="bounded masks need a secret"):
        Terms.of("secret-sharing:bound=2.0")


def test_evaluation_runs_under_the_same_refusals() -> None:
    direct = DirectGrid(toy_app(SHARING))
    result = fedavg().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert list(result.evaluate_metrics_clientapp) == [1]
    for message in direct.received:
        assert not message.content.metric_records
