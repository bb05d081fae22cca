"""What the server of a Flower run can read, and what a node refuses to tell it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Result
from tests.deployment.flower.harness import (
    LOSSES,
    MODEL,
    NODES,
    RECORDS,
    SHARING,
    DirectGrid,
    changed,
    cut,
    fedavg,
    initial,
    mean_of,
    moves,
    small_paillier,
    toy_app,
    train_only,
    with_ledgers,
)

from trilemma.crypto.paillier import PrivateKey
from trilemma.deployment.flower import (
    Deployment,
    ProtectedGrid,
    Terms,
    local_update,
    protect_mod,
)
from trilemma.deployment.flower.messages import read_stages, write_stages
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transports.wire import unpack
from trilemma.records.records import Records


def everything(direct: DirectGrid) -> bytes:
    """All bytes that reached the server."""
    texts = []
    for message in direct.received:
        for record in message.content.values():
            for name, value in record.items():
                texts += [name.encode(), value.data if hasattr(value, "data") else repr(value)]
    return b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)


def secret_numbers() -> list[bytes]:
    """Each client's own update and loss, in the encodings that would give them away."""
    found = []
    for node in NODES:
        step = np.concatenate([move.ravel() for move in moves(node).values()])
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
                kept = [value for value in record.values() if isinstance(value, bytes)]
                fields = [unpack(value[:-16]) for value in kept]  # without their checksum
                secrets.extend(field[part] for field in fields for part in (3, 4, 5))  # keys, seed
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


@pytest.mark.parametrize("mode", ["blind", "open"])
def test_paillier_leaves_the_server_without_a_key_or_a_single_update(
    mode: str, key: PrivateKey, key_file: Path
) -> None:
    transport = small_paillier("blind" if mode == "blind" else "open")
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
    assert ("OPN" in str(kinds)) == (mode == "open"), "a blind server is shown no sum"


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


def test_a_refusal_does_not_quote_data(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = DirectGrid(toy_app(SHARING), node_config={"trilemma-threshold": "patient 4711"})
    train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    reasons = {str(item.error.reason) for item in direct.received if item.has_error()}
    assert reasons == {"InvalidInput: the log of the node says why"}


# Bad input


def test_a_metric_that_is_nan_counts_as_zero_and_its_client_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(LOSSES, NODES[0], float("nan"))
    direct = DirectGrid(toy_app(SHARING))
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert "metric 'train_loss' must be a number, and counts as 0" in caplog.text
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(NODES, "weight"), atol=1e-4
    )
    loss = sum(RECORDS[node] * LOSSES[node] for node in NODES[1:]) / sum(RECORDS.values())
    assert result.train_metrics_clientapp[1]["train_loss"] == pytest.approx(loss, abs=1e-5)


def test_evaluation_runs_under_the_same_refusals() -> None:
    direct = DirectGrid(toy_app(SHARING))
    result = fedavg().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert list(result.evaluate_metrics_clientapp) == [1]
    for message in direct.received:
        assert not message.content.metric_records


# Single records


TRAINING = LocalTraining(lr=0.5, batch=2, record_clip=0.1, sampling="poisson")
BY_RECORD = Deployment(
    TRAINING,
    parameters=8,
    clients=4,
    cohort=4,
    threshold=3,
    rounds=5,
    sampling_rate=0.2,
    participation="secret",
)
TOLD = ("cohort", "survivors", "refusals")  # of every round
QUIET = "randomization:variance=1e-12"  # so that a sum can be read
Trained = Callable[[torch.nn.Module, Records, Terms], dict[str, torch.Tensor]]


def network() -> torch.nn.Module:
    torch.manual_seed(5)
    return torch.nn.Linear(3, 2)


def own_records(node: int) -> Records:
    draw = torch.Generator().manual_seed(node % 1000)
    return Records(torch.rand(10, 3, generator=draw), torch.arange(10) % 2)


def honestly(model: torch.nn.Module, records: Records, terms: Terms) -> dict[str, torch.Tensor]:
    local_update(model, cross_entropy, records, terms)
    return model.state_dict()


def learning_app(terms: Terms, trained: Trained) -> ClientApp:
    """An app that reports its batch's loss and count, as apps do."""
    app = ClientApp(mods=[protect_mod(terms)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model, records = network(), own_records(context.node_id)
        model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        arrays = ArrayRecord(trained(model, records, terms))
        metrics = MetricRecord({"num-examples": 31337, "train_loss": 2.718281828})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


def start(direct: DirectGrid, terms: Terms, rounds: int = 1) -> Result:
    arrays = ArrayRecord(network().state_dict())
    return train_only().start(ProtectedGrid(direct, terms), arrays, num_rounds=rounds)


@pytest.mark.parametrize(
    "text", [QUIET, "randomization:variance=1e-3+secret-sharing:max_weight=100,precision_bits=20"]
)
def test_an_update_made_by_local_update_leaves_without_counts_or_metrics(
    text: str, tmp_path: Path
) -> None:
    terms = Terms.deployed(text, BY_RECORD)
    direct = with_ledgers(DirectGrid(learning_app(terms, honestly)), tmp_path)
    result = start(direct, terms, rounds=2)
    for metrics in result.train_metrics_clientapp.values():
        assert set(metrics) == {"dp-epsilon", "dp-epsilon-round", "dp-delta", *TOLD}
    received = everything(direct)
    for number in (31337, 2.718281828):
        for secret in (repr(number).encode(), np.float64(number).tobytes()):
            assert secret not in received
    assert np.int32(31337).tobytes() not in received
    assert np.int32(31337).byteswap().tobytes() not in received
    (event,) = Ledger(tmp_path / f"ledger-{NODES[0]}").events("records")
    assert (event.rounds, event.level, event.q) == (2, "record", 0.2)
    start_of = torch.cat([value.flatten() for value in network().state_dict().values()])
    reached = torch.cat(
        [value.flatten() for value in result.arrays.to_torch_state_dict().values()]
    )
    if text == QUIET:  # 20 records at most, each C_r / S = .05, averaged over 4 clients, twice
        assert 0 < (reached - start_of).norm() <= 0.5 * 2 * 10 * 0.05 + 1e-4


def by_hand(model: torch.nn.Module, records: Records, terms: Terms) -> dict[str, torch.Tensor]:
    return {name: value + 0.1 for name, value in model.state_dict().items()}


def twice(model: torch.nn.Module, records: Records, terms: Terms) -> dict[str, torch.Tensor]:
    honestly(model, records, terms)
    return honestly(model, records, terms)


def with_momentum(
    model: torch.nn.Module, records: Records, terms: Terms
) -> dict[str, torch.Tensor]:
    return {name: 1.01 * value for name, value in honestly(model, records, terms).items()}


def from_elsewhere(
    model: torch.nn.Module, records: Records, terms: Terms
) -> dict[str, torch.Tensor]:
    return honestly(torch.nn.Linear(3, 2), records, terms)


@pytest.mark.parametrize(
    ("trained", "sentence"),
    [
        (by_hand, "made by one call of local_update, got 0"),
        (twice, "made by one call of local_update, got 2"),
        (with_momentum, "is not what local_update left in the model"),
        (from_elsewhere, "than the server sent; load the message's arrays first"),
    ],
)
def test_a_reply_that_local_update_did_not_make_is_sent_as_zeros(
    trained: Trained, sentence: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    terms = Terms.deployed(QUIET, BY_RECORD)
    direct = with_ledgers(DirectGrid(learning_app(terms, trained)), tmp_path)
    result = start(direct, terms)
    assert result.train_metrics_clientapp[1]["survivors"] == len(NODES)
    for name, values in network().state_dict().items():
        np.testing.assert_allclose(result.arrays[name].numpy(), values, atol=1e-4)
    assert sentence in caplog.text
    (event,) = Ledger(tmp_path / f"ledger-{NODES[0]}").events("records")
    assert event.rounds == 1, "it was asked, and answered"


def test_what_an_app_raises_stays_on_the_node(caplog: pytest.LogCaptureFixture) -> None:
    app = ClientApp(mods=[protect_mod(SHARING)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise KeyError("patient 4711")

    direct = DirectGrid(app)
    train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert not any(item.has_error() for item in direct.received)
    assert b"4711" not in everything(direct)
    assert "the app raised KeyError: 'patient 4711'" in caplog.text
    assert "the sum of all updates is zero; the nodes' logs say" in caplog.text
