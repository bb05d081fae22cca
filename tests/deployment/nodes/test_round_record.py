"""What a node remembers over a restart, and that it reveals one kind of share for a peer."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from tests.deployment.nodes.driver import DictStore, Federation
from tests.deployment.nodes.pins import pin

from trilemma.crypto.shamir import Share, combine
from trilemma.deployment.nodes.round_record import RoundRecord
from trilemma.deployment.nodes.server_rounds import ServerRound
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients
from trilemma.execution.durable_file import KeptFile
from trilemma.protection.transports.secret_sharing.identity import SIGNATURE_BYTES
from trilemma.protection.transports.secret_sharing.signed_lists import write_list
from trilemma.protection.transports.wire import HEADER_BYTES, SERVER, pack, unpack, write_message

NODES = (3, 40, 55, 77)
SHARING = Terms.of("secret-sharing:max_weight=100", weighting="equal")
STAGE = Stage(7, "train", "a" * 32, 5, (1, 2, 3), 4)
STEPS = ("advertise", "share", "masked", "unmask")


@pytest.fixture
def record(tmp_path: Path) -> RoundRecord:
    return RoundRecord(tmp_path / "round record")


def test_a_session_is_begun_once_and_a_round_answered_once(record: RoundRecord) -> None:
    other = replace(STAGE, session="b" * 32)
    record.begin(STAGE)
    with pytest.raises(ProtocolViolation, match=r"restarted in round 5, .* sits the round out"):
        record.begin(STAGE)
    record.begin(other)
    record.answer(other)
    for again in (STAGE, other, replace(STAGE, number=4)):
        for act in (record.begin, record.answer):
            with pytest.raises(ProtocolViolation, match=r"was answered \(the last was 5\)"):
                act(again)
    record.begin(replace(STAGE, number=6))
    record.begin(replace(STAGE, kind="evaluate"))
    record.begin(replace(STAGE, run=8))


def test_one_kind_of_share_is_promised_of_a_peer(record: RoundRecord) -> None:
    with pytest.raises(ProtocolViolation, match="answered another session"):
        record.promise(STAGE, {"update": {0: "seed"}})
    record.answer(STAGE)
    record.promise(STAGE, {"update": {0: "seed", 1: "key"}})
    record.promise(STAGE, {"update": {0: "seed", 1: "key"}, "metrics": {0: "seed", 1: "seed"}})
    record.write()
    for other in ({0: "seed", 1: "seed"}, {0: "key", 1: "key"}, {0: "seed"}):
        with pytest.raises(ProtocolViolation, match="reveals one kind for a peer"):
            RoundRecord(record.path).promise(STAGE, {"update": other})
    record.answer(replace(STAGE, number=6))
    record.promise(replace(STAGE, number=6), {"update": {0: "key"}})


def test_what_is_noted_counts_at_once_and_is_on_disk_when_written(record: RoundRecord) -> None:
    rival = RoundRecord(record.path)
    record.answer(STAGE)
    record.begin(replace(STAGE, number=6))
    rival.answer(STAGE)
    assert not record.path.exists()
    record.write()
    with pytest.raises(ProtocolViolation, match="was answered"):
        rival.write()
    with pytest.raises(ProtocolViolation, match="restarted in round 6"):
        RoundRecord(record.path).begin(replace(STAGE, number=6))


def test_a_message_is_written_once_before_its_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(SHARING, pin(tmp_path, NODES))
    round, later = until("masked", federation), until("advertise", federation, number=2)
    written, add = list[object](), KeptFile.add
    monkeypatch.setattr(KeptFile, "add", lambda file, data: written.append(add(file, data)))
    messages = {node: (round.message(node), later.message(node)) for node in NODES}
    for node in NODES[1:]:
        assert (
            len(federation.answers(node, [message for message in messages[node] if message])) == 2
        )
    assert len(written) == 3

    def full(file: KeptFile, data: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(KeptFile, "add", full)
    with pytest.raises(
        InvalidInput, match=r"round record .* cannot be read or written \(No space"
    ):
        federation.answers(3, [message for message in messages[3] if message])
    monkeypatch.setattr(KeptFile, "add", add)
    with pytest.raises(ProtocolViolation, match="knows nothing of that session"):
        federation.answers(3, [message for message in messages[3] if message])


def test_a_damaged_record_lets_nothing_leave(record: RoundRecord) -> None:
    record.path.write_text("{")
    record.path.chmod(0o600)
    for act in (record.begin, record.answer):
        with pytest.raises(InvalidInput, match=r"round record .* is damaged, and nothing leaves"):
            act(STAGE)


def step(
    federation: Federation, round: ServerRound, lost: tuple[int, ...] = ()
) -> dict[int, Stage]:
    """One exchange with everybody, and all answers; those of the lost do not arrive."""
    replies = {}
    for node in round.nodes:
        stage = round.message(node)
        assert stage is not None
        replies[node] = federation.answer(node, stage)
    round.receive({node: reply for node, reply in replies.items() if node not in lost})
    return replies


def until(name: str, federation: Federation, number: int = 1) -> ServerRound:
    round = ServerRound(SHARING, federation.run, "train", number, NODES, 6)
    for _ in range(STEPS.index(name)):
        step(federation, round)
    return round


def listing(round: ServerRound, survivors: tuple[int, ...]) -> bytes:
    """A list of survivors, with the digest that the server's messages carry."""
    digest = next(iter(round.waiting["update"].values()))[8:24]
    return write_message("SUR", digest, SERVER, write_list(survivors))


@pytest.mark.parametrize("name", [*STEPS[1:], "confirm"])
def test_a_node_restarted_in_a_round_sits_it_out(name: str, tmp_path: Path) -> None:
    federation = Federation(SHARING, pin(tmp_path, NODES))
    if name == "confirm":
        step(federation, round := until("masked", federation), lost=(77,))
    else:
        round = until(name, federation)
    federation.stores[3] = DictStore()
    stage = round.message(3)
    assert stage is not None
    with pytest.raises(ProtocolViolation, match="or the node was restarted"):
        federation.answer(3, stage)
    with pytest.raises(ProtocolViolation, match=r"sits the round out|sits it out"):
        federation.answer(3, replace(stage, blobs={"update": b""}))
    federation.round(2)
    assert not federation.refusals


@pytest.mark.parametrize("back_to", ["masked", "unmask"])
def test_a_node_rolled_back_gives_no_second_answer(back_to: str, tmp_path: Path) -> None:
    """The server wants both kinds of share of node 77: one from before the restart, one after."""
    federation = Federation(SHARING, pin(tmp_path, NODES))
    round = until(back_to, federation)
    lie = listing(round, (0, 1, 2))
    kept = deepcopy(federation.stores)
    while round.waiting:
        step(federation, round)
    federation.stores = kept
    stage = round.stage
    for node in NODES[:3]:
        sessions = federation.node(node).sessions(replace(stage, blobs={"update": b"x"}))
        wanted = sessions["update"].wants_update
        assert wanted == (back_to == "masked")
        with pytest.raises(ProtocolViolation, match=r"was answered|reveals one kind for a peer"):
            federation.answer(node, replace(stage, blobs={"update": lie}))
        if back_to == "unmask":
            with pytest.raises(ProtocolViolation, match="knows nothing of that session"):
                federation.answer(node, replace(stage, blobs={"update": lie}))


@pytest.mark.parametrize("asked", ["confirm", "unmask"])
def test_a_node_that_signed_who_is_lost_never_takes_the_early_signatures(
    asked: str, tmp_path: Path
) -> None:
    """The other way round, even if it was restarted before it gave its shares."""
    federation = Federation(SHARING, pin(tmp_path, NODES))
    round = until("masked", federation)
    updates = step(federation, round, lost=(77,))
    kept = deepcopy(federation.stores)
    early = {
        seat: updates[node].blobs["update"][HEADER_BYTES:][:SIGNATURE_BYTES]
        for seat, node in enumerate(NODES)
    }
    digest = next(iter(round.waiting["update"].values()))[8:24]
    lie = write_message("ALL", digest, SERVER, pack(early))
    while round.waiting and (asked == "unmask" or round.steps < 4):
        step(federation, round)
    federation.stores = kept
    for node in NODES[:3]:
        with pytest.raises(ProtocolViolation, match="reveals one kind for a peer"):
            federation.answer(node, replace(round.stage, blobs={"update": lie}))
    assert federation.answer(77, replace(round.stage, blobs={"update": lie})), "it signed no other"


def test_without_a_record_a_rollback_gives_both_kinds_of_share() -> None:
    """Why it is written: the self-mask and the key of node 77, and so its update."""
    federation = Federation(SHARING, {node: {} for node in NODES})
    round = ServerRound(SHARING, federation.run, "train", 1, NODES, 6)
    for _ in range(3):
        step(federation, round)
    kept = deepcopy(federation.stores)
    secrets = []
    for survivors in ((0, 1, 2, 3), (0, 1, 2)):
        lie = listing(round, survivors)
        shares = []
        for node in NODES[:3]:
            reply = federation.answer(node, replace(round.stage, blobs={"update": lie}))
            shares.append(Share.from_bytes(unpack(reply.blobs["update"][HEADER_BYTES:])[3]))
        secrets.append(combine(shares, 3))
        federation.stores = kept
    assert len(set(secrets)) == 2


def test_no_seed_and_no_key_reaches_the_disk(tmp_path: Path) -> None:
    config = pin(tmp_path, NODES)
    federation = Federation(SHARING, config)
    secrets: set[bytes] = set()
    round = ServerRound(SHARING, federation.run, "train", 1, NODES, 6)
    while round.waiting:
        step(federation, round)
        for store in federation.stores.values():
            for state in store.memory.values():
                if isinstance(state, bytes):
                    fields = unpack(state[:-16])  # without its checksum
                    secrets |= {fields[3], fields[4], fields[5], *unpack(fields[7]).values()}
    secrets.discard(b"")  # of shares that were revealed
    assert len(secrets) > 12
    for node in NODES:
        path = Path(config[node]["trilemma-identity"] + ".rounds")
        text = path.read_bytes()
        assert not any(secret.hex().encode() in text or secret in text for secret in secrets)
        (entry,) = json.loads(text.split(b"\n}\n")[-2] + b"}")["data"].values()
        assert entry["answered"] == 1
        assert entry["shares"] == {"update": {str(seat): "seed" for seat in range(4)}}


def test_a_record_that_cannot_be_written_stops_the_node(tmp_path: Path) -> None:
    federation = Federation(SHARING, pin(tmp_path, NODES))
    (tmp_path / "3.pem.rounds").mkdir()
    made = federation.round(1)
    assert made.released["update"].clients == (1, 2, 3), "without node 3"
    (refusal,) = federation.refusals
    assert "the round record" in refusal
    assert "cannot be read or written" in refusal


def test_pinned_nodes_hold_to_two_thirds(tmp_path: Path) -> None:
    low = replace(SHARING, threshold=3)
    nodes = (*NODES, 90)
    federation = Federation(low, pin(tmp_path, nodes))
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert "above two thirds of the 5 clients" in federation.refusals[0]
