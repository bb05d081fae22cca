"""The node's half: a Flower mod that answers protocol stages, and trains where one asks for it.

What a node must keep between messages (keys, seeds, shares) lives in its `context.state`, written
before the reply leaves. A stage that was answered or that failed is never answered again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from trilemma.deployment.flower.messages import (
    content_digest,
    model_tensors,
    only_arrays,
    read_stages,
    shifted,
    tensors_of,
    without_stages,
    write_stages,
)
from trilemma.deployment.nodes.answering import answer
from trilemma.deployment.nodes.app_answers import Call, Reply
from trilemma.deployment.nodes.model_check import ModelCheck
from trilemma.deployment.nodes.node import Node
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind, Terms
from trilemma.deployment.site.wrapping import TERMS_OF_MOD
from trilemma.errors import (
    BudgetSpent,
    InvalidInput,
    ModelRefused,
    NotConfigured,
    ProtocolViolation,
    RangeExceeded,
    TooFewClients,
    TrilemmaError,
)
from trilemma.protection.protection import Protection

__all__ = ["protect_mod"]

_LOG: Final = logging.getLogger("trilemma.flower")
_REFUSED: Final = 2  # Flower's code for a client that raised
_PUBLIC: Final = (
    BudgetSpent,
    ModelRefused,
    NotConfigured,
    ProtocolViolation,
    RangeExceeded,
    TooFewClients,
)
_DEFAULT_ACTION: Final = "default"  # of a message whose type names none
_STATE: Final = "trilemma"
_CHANGE: Final = "trilemma-change"


@dataclass(frozen=True)
class _ContextStore:
    """A node's memory in its context."""

    context: Context

    @property
    def memory(self) -> ConfigRecord:
        if _STATE not in self.context.state:
            self.context.state[_STATE] = ConfigRecord()
        return self.context.state.config_records[_STATE]

    @property
    def change(self) -> torch.Tensor | None:
        kept = self.context.state.array_records.get(_CHANGE)
        return None if kept is None else torch.from_numpy(kept["change"].numpy())

    def keep_change(self, change: torch.Tensor) -> None:
        self.context.state[_CHANGE] = ArrayRecord({"change": Array(change.numpy())})


def protect_mod(terms: Terms | Protection | str, *, check: ModelCheck | None = None) -> Mod:
    """A mod that lets no update, metric or record count leave this node but under the terms.

    Put it first in `ClientApp(mods=[...])`. It refuses plain train and evaluate messages, and
    queries that the terms do not name, and takes keys, peers and its own minimum cohort from the
    node's configuration alone (see `Node`). What the app makes of its records never makes it
    refuse: zeros leave in place of what cannot be used, and the node's log says why. With a
    `check` the node looks at each model before it trains, and warns or refuses (`Node`).
    """
    agreed = Terms.of(terms)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        kind, _, action = message.metadata.message_type.partition(".")
        try:
            store = _ContextStore(context)
            node = Node.of(agreed, context.run_id, context.node_id, context.node_config, store)
            if kind not in ("train", "evaluate"):
                node.query(action or _DEFAULT_ACTION)
                return _answer(message, context, call_next)
            if not (stages := read_stages(message.content)):
                raise ProtocolViolation(
                    "this node is protected and answers no plain message; start the strategy with "
                    "grid=ProtectedGrid(grid, ...)."
                )

            if node.policy is not None and kind == "train":
                node.policy.require_check(given=check is not None)

            def call(stage: Stage) -> Call:
                asked = _call(node, stage, message, context, call_next)
                if check is not None and stage.kind == "train":
                    check.require(asked.arrays, store.memory, node.model_check)
                return asked

            replies = answer(node, cast(Kind, kind), stages, call)
            return Message(RecordDict(dict(write_stages(replies))), reply_to=message)
        except TrilemmaError as error:
            # An error reply, not an exception: the simulation would undo what the node has
            # written down, and so forget that it answered. What may quote data stays here.
            cause = error.__cause__
            _LOG.warning("node %d refuses: %s", context.node_id, error, exc_info=cause)
            detail = str(error) if isinstance(error, _PUBLIC) else "the log of the node says why"
            reason = f"{type(error).__name__}: {detail}"
            return Message(Error(_REFUSED, reason), reply_to=message)

    setattr(mod, TERMS_OF_MOD, agreed)  # so that a node can tell whether an app is protected
    return mod


def _call(
    node: Node, stage: Stage, message: Message, context: Context, call_next: ClientAppCallable
) -> Call:
    """The app's part of a stage: the message as it would see it without us."""
    shown = content_digest(message.content)
    content = without_stages(message.content)
    name, arrays = only_arrays(content)
    layout, start = model_tensors(arrays)
    if node.terms.blind:
        arrays = shifted(arrays, node.change(start) * node.terms.units(layout))
        layout, start = model_tensors(arrays)
    if stage.kind == "train" and layout.size != stage.size:
        raise ProtocolViolation(
            f"the model has {layout.size} parameters, the round is for {stage.size}."
        )
    content[name] = arrays

    def run() -> Reply:
        message.content = content
        made = _answer(message, context, call_next).content
        after = tensors_of(only_arrays(made)[1]) if stage.kind == "train" else {}
        return Reply(after, _only_metrics(made))

    return Call(tensors_of(arrays), layout, start, run, shown)


def _answer(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """What the app answers, if it does."""
    try:
        reply = call_next(message, context)
    except TrilemmaError:
        raise
    except Exception as error:  # Flower would send its text, which may quote records
        raise InvalidInput(f"the app raised {type(error).__name__}: {error}.") from error
    if reply.has_error():
        raise InvalidInput(f"the app answered with an error: {reply.error.reason}.")
    return reply


def _only_metrics(content: RecordDict) -> dict[str, Any]:
    if len(content.metric_records) > 1:
        raise InvalidInput(
            f"a reply holds one MetricRecord, got {len(content.metric_records)}; put everything "
            "into one."
        )
    return dict(next(iter(content.metric_records.values()), {}))
