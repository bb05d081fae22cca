"""How a node answers the stages of a message; what trains or evaluates is the caller's.

What a node checks before it counts an asking (run, terms, policy, cohort, model, ledger) depends
on no record; after that it answers whatever its app makes of its records (`working`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import torch

from trilemma.deployment.nodes.app_answers import Call, work_of
from trilemma.deployment.nodes.node import Node
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind
from trilemma.errors import ProtocolViolation, RangeExceeded, TrilemmaError
from trilemma.protection.sessions import ProtectedClient
from trilemma.protection.transcripts import Released

__all__ = ["answer"]

_LOG: Final = logging.getLogger("trilemma.nodes")


def answer(
    node: Node, kind: Kind, stages: Sequence[Stage], call: Callable[[Stage], Call]
) -> list[Stage]:
    """The node's reply to each stage that is due one; `call` is the app's part where one asks.

    `kind` is the message's. `call` checks the message and may refuse it; the app runs once the
    asking is counted. A stage that was answered or that failed is never answered again.
    """
    for stage in stages:
        node.check(stage)
        if stage.kind != ("train" if stage.version else kind):  # sums come with either kind
            raise ProtocolViolation(
                f"a message to {kind} holds a stage to {stage.kind}; it is forged."
            )
    for stage in (item for item in stages if item.version):
        _apply_sum(node, stage)
    if not (due := [item for item in stages if not item.version]):
        raise ProtocolViolation(
            f"a message to {kind} holds {len(stages)} sums and asks for nothing; it is cut short."
        )
    first, *others = due
    try:
        replies = [_step(node, first, call)]
        for stage in others:  # the next round's keys or shares; without them it starts afresh
            try:
                replies.append(_step(node, stage, _no_call))
            except TrilemmaError as error:
                _LOG.warning("node %d leaves round %d: %s", node.number, stage.number, error)
    finally:
        node.write(due)
    return replies


def _no_call(stage: Stage) -> Call:
    raise ProtocolViolation(
        f"a message asks for a second update, of round {stage.number}; it is forged."
    )


def _step(node: Node, stage: Stage, call: Callable[[Stage], Call]) -> Stage:
    """One step of each lane of a session that the stage has a message for."""
    sessions = node.sessions(stage)
    asked = None
    if any(session.wants_update for session in sessions.values()):
        asked = call(stage)
        node.spend(stage)
    blobs: dict[str, bytes] = {}
    try:
        work = None if asked is None else work_of(node, stage, asked)
        for lane, session in sessions.items():
            inbox = stage.blobs[lane]
            if session.wants_update and work is not None:
                reply = session.step(inbox, work.lanes[lane], work.weight, work.shown)
                _log_range(node, session)
            else:
                reply = session.step(inbox)
            if isinstance(reply, Released):
                raise ProtocolViolation("a sum came without its version; nothing is applied.")
            blobs[lane] = reply
    finally:
        node.remember(stage, sessions, answered=asked is not None)
    return Stage(
        stage.run, stage.kind, stage.session, stage.number, stage.cohort, stage.size, blobs=blobs
    )


def _log_range(node: Node, session: ProtectedClient) -> None:
    """Says on the node, where terms with a claim let nobody else know it, what was cut off."""
    fixed = session.protection.transport.fixed
    if fixed is None or session.sent is None or not node.terms.limited:
        return
    if beyond := int((session.sent.abs() > fixed.clip).sum()):
        share = 100 * beyond / session.size
        _LOG.warning(
            "node %d: %.2g %% of what it sends lie beyond clip_range=%g, and count as its edge",
            node.number,
            share,
            fixed.clip,
        )


def _apply_sum(node: Node, stage: Stage) -> None:
    """Opens an encrypted sum that the server could not read, and applies it to this node's model.

    One with too many coordinates beyond the range moves no node's model: all see the same sum.
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
    try:
        opened = session.step(stage.blobs["update"])
    except RangeExceeded as error:
        _LOG.warning("sum %d fails, and the model stays as it was: %s", stage.version, error)
        node.advance(stage.version, torch.zeros(stage.size))
        return
    if not isinstance(opened, Released):
        raise ProtocolViolation("what the server sent as a sum opens to none; it is forged.")
    node.advance(stage.version, opened.mean * node.terms.server_step(stage.number - 1))
