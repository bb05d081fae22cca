"""The node's half: a Flower mod that answers protocol stages, and trains where one asks for it.

What a node must keep between messages (keys, seeds, shares) lives in its `context.state`, written
before the reply leaves. A stage that was answered or that failed is never answered again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from flwr.app import Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients, TrilemmaError
from trilemma.federation.flower.messages import (
    Stage,
    encode_metrics,
    model_tensors,
    only_arrays,
    read_stages,
    shifted,
    without_stages,
    write_stages,
)
from trilemma.federation.flower.node import Node
from trilemma.federation.flower.terms import Kind, Terms
from trilemma.protections.protection import Protection
from trilemma.protections.transcripts import Released

__all__ = ["protect_mod"]

_LOG: Final = logging.getLogger("trilemma.flower")
_REFUSED: Final = 2  # Flower's code for a client that raised


@dataclass(frozen=True)
class _Work:
    """What training or evaluating gave: a vector for each lane, and the weight of all."""

    lanes: dict[str, torch.Tensor]
    weight: int


def protect_mod(terms: Terms | Protection | str) -> Mod:
    """A mod that lets no update, metric or record count leave this node but under the terms.

    Put it first in `ClientApp(mods=[...])`. It answers a plain train or evaluate message with a
    refusal, and takes keys, peers and its own minimum cohort from the node's configuration alone
    (see `Node`).
    """
    agreed = Terms.of(terms)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        kind = message.metadata.message_type.partition(".")[0]
        if kind not in ("train", "evaluate"):
            return call_next(message, context)
        try:
            return _answer(Node.of(agreed, context), message, context, call_next)
        except TrilemmaError as error:
            # An error reply, not an exception: the simulation would undo what the node has
            # written down, and so forget that it answered. What may quote data stays here.
            _LOG.warning("node %d refuses: %s", context.node_id, error)
            public = isinstance(error, ProtocolViolation | TooFewClients)
            detail = str(error) if public else "the log of the node says why"
            reason = f"{type(error).__name__}: {detail}"
            return Message(Error(_REFUSED, reason), reply_to=message)

    return mod


def _answer(
    node: Node, message: Message, context: Context, call_next: ClientAppCallable
) -> Message:
    stages = read_stages(message.content)
    if not stages:
        raise ProtocolViolation(
            "this node is protected and answers no plain message; start the strategy with "
            "grid=ProtectedGrid(grid, ...)."
        )

    def work(stage: Stage) -> _Work:
        return _work(node, stage, message, context, call_next)

    for stage in stages:
        node.check(stage)
    for stage in (each for each in stages if each.version):
        _apply_sum(node, stage)
    first, *others = [each for each in stages if not each.version]
    replies = [_step(node, first, work)]
    for stage in others:  # the next round's keys or shares; without them it starts afresh
        try:
            replies.append(_step(node, stage, _no_work))
        except TrilemmaError as error:
            _LOG.warning("node %d leaves round %d: %s", context.node_id, stage.number, error)
    return Message(RecordDict(dict(write_stages(replies))), reply_to=message)


def _no_work(stage: Stage) -> _Work:
    raise ProtocolViolation(
        f"a message asks for a second update, of round {stage.number}; it is forged."
    )


def _step(node: Node, stage: Stage, work: Callable[[Stage], _Work]) -> Stage:
    """One step of each lane of a session that the stage has a message for."""
    sessions = node.sessions(stage)
    done = None
    if any(session.wants_update for session in sessions.values()):
        done = work(stage)
    blobs: dict[str, bytes] = {}
    try:
        for lane, session in sessions.items():
            inbox = stage.blobs[lane]
            if session.wants_update and done is not None:
                reply = session.step(inbox, done.lanes[lane], done.weight)
            else:
                reply = session.step(inbox)
            if isinstance(reply, Released):
                raise ProtocolViolation("a sum came without its version; nothing is applied.")
            blobs[lane] = reply
    finally:
        node.store(stage, sessions, answered=done is not None)
    return Stage(
        stage.run, stage.kind, stage.session, stage.number, stage.cohort, stage.size, blobs=blobs
    )


def _work(
    node: Node, stage: Stage, message: Message, context: Context, call_next: ClientAppCallable
) -> _Work:
    """Runs the app on the message as it would see it without us."""
    terms = node.terms
    name, before = only_arrays(without_stages(message.content))
    if terms.blind:
        before = shifted(before, node.change(before))
    layout, start = model_tensors(before)
    if stage.kind == "train" and layout.size != stage.size:
        raise ProtocolViolation(
            f"the model has {layout.size} parameters, the round is for {stage.size}."
        )
    content = without_stages(message.content)
    content[name] = before
    message.content = content
    reply = call_next(message, context)
    if reply.has_error():
        raise ProtocolViolation(f"the app answered with an error: {reply.error.reason}.")
    metrics = _only_metrics(reply.content)
    lanes: dict[str, torch.Tensor] = {}
    if stage.kind == "train":
        _, after = only_arrays(reply.content)
        changed = {key: torch.from_numpy(array.numpy()) for key, array in after.items()}
        change = start - layout.flatten(changed).to(start.dtype)
        lanes["update"] = change / terms.learning_rate
    transport = terms.protection.transport
    names = terms.names(stage.kind)
    lanes["metrics"] = encode_metrics(metrics, names, terms.metric_range, transport)
    return _Work(lanes, _weight(terms, stage.kind, metrics))


def _only_metrics(content: RecordDict) -> MetricRecord:
    if len(content.metric_records) != 1:
        raise InvalidInput(
            f"a reply holds one MetricRecord, got {len(content.metric_records)}; put everything "
            "into one."
        )
    return next(iter(content.metric_records.values()))


def _weight(terms: Terms, kind: Kind, metrics: MetricRecord) -> int:
    """The weight of this client: 1, or its number of records."""
    if kind == "train" and terms.weighting == "uniform":
        return 1
    value = metrics.get(terms.weighted_by)
    if isinstance(value, list) or value is None or not float(value).is_integer() or value < 1:
        raise InvalidInput(
            f"metric {terms.weighted_by!r} must be a whole number of records, at least 1, got "
            f"{value!r}; report it, or use weighting='uniform'."
        )
    return int(value)


def _apply_sum(node: Node, stage: Stage) -> None:
    """Opens an encrypted sum that the server could not read, and applies it to this node's model.

    A node that did not answer that round opens it as any holder of the key can: in a session of
    its own, whose encryption of nothing is thrown away.
    """
    if stage.version <= node.version:
        return
    if stage.version != node.version + 1:
        raise ProtocolViolation(
            f"this node holds version {node.version} of the model and cannot apply sum "
            f"{stage.version}; send those between."
        )
    session = node.reader(stage)
    if session.wants_update:
        session.step(b"", torch.zeros(stage.size))
    opened = session.step(stage.blobs["update"])
    if not isinstance(opened, Released):
        raise ProtocolViolation("what the server sent as a sum opens to none; it is forged.")
    node.advance(stage.version, opened.mean * node.terms.learning_rate)
