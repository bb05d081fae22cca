"""The node's half: a Flower mod that answers protocol stages, and trains where one asks for it.

What a node must keep between messages (keys, seeds, shares) lives in its `context.state`, written
before the reply leaves. A stage that was answered or that failed is never answered again.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from trilemma.errors import (
    BudgetSpent,
    InvalidInput,
    NotConfigured,
    ProtocolViolation,
    RangeExceeded,
    TooFewClients,
    TrilemmaError,
)
from trilemma.federation.flower.messages import (
    content_digest,
    model_tensors,
    only_arrays,
    read_stages,
    shifted,
    tensors_of,
    without_stages,
    write_stages,
)
from trilemma.federation.nodes.answering import Work, answer
from trilemma.federation.nodes.local import Made, only_made, watched
from trilemma.federation.nodes.metrics import encode_metrics
from trilemma.federation.nodes.node import Node
from trilemma.federation.nodes.stages import Stage
from trilemma.federation.nodes.state import units
from trilemma.federation.nodes.steps import Step, require_training, watched_steps
from trilemma.federation.nodes.terms import Kind, Terms
from trilemma.protections.protection import Protection

__all__ = ["protect_mod"]

_LOG: Final = logging.getLogger("trilemma.flower")
_REFUSED: Final = 2  # Flower's code for a client that raised
_PUBLIC: Final = (BudgetSpent, NotConfigured, ProtocolViolation, RangeExceeded, TooFewClients)
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
            if not (stages := read_stages(message.content)):
                raise ProtocolViolation(
                    "this node is protected and answers no plain message; start the strategy with "
                    "grid=ProtectedGrid(grid, ...)."
                )
            node = Node.of(
                agreed,
                context.run_id,
                context.node_id,
                context.node_config,
                _ContextStore(context),
            )

            def work(stage: Stage) -> Work:
                return _work(node, stage, message, context, call_next)

            replies = answer(node, cast(Kind, kind), stages, work)
            return Message(RecordDict(dict(write_stages(replies))), reply_to=message)
        except TrilemmaError as error:
            # An error reply, not an exception: the simulation would undo what the node has
            # written down, and so forget that it answered. What may quote data stays here.
            cause = error.__cause__
            _LOG.warning("node %d refuses: %s", context.node_id, error, exc_info=cause)
            detail = str(error) if isinstance(error, _PUBLIC) else "the log of the node says why"
            reason = f"{type(error).__name__}: {detail}"
            return Message(Error(_REFUSED, reason), reply_to=message)

    return mod


def _work(
    node: Node, stage: Stage, message: Message, context: Context, call_next: ClientAppCallable
) -> Work:
    """Runs the app on the message as it would see it without us."""
    terms, shown = node.terms, content_digest(message.content)
    name, before = only_arrays(without_stages(message.content))
    layout, start = model_tensors(before)
    if terms.blind:
        before = shifted(before, node.change(start) * units(layout, terms))
        layout, start = model_tensors(before)
    if stage.kind == "train" and layout.size != stage.size:
        raise ProtocolViolation(
            f"the model has {layout.size} parameters, the round is for {stage.size}."
        )
    content = without_stages(message.content)
    content[name] = before
    message.content = content
    reply, made, steps = _run(terms, message, context, call_next)
    metrics = {} if terms.by_record else _only_metrics(reply.content)
    lanes: dict[str, torch.Tensor] = {}
    if stage.kind == "train":
        after = tensors_of(only_arrays(reply.content)[1])
        if terms.by_record or (terms.deployment is not None and made):
            lanes["update"] = only_made(made, layout, tensors_of(before), after)
        else:
            if terms.deployment is not None:
                require_training(steps, terms.deployment.local_training)
            change = start - layout.flatten(after).to(start.dtype)
            lanes["update"] = change / terms.learning_rate / units(layout, terms)
    transport = terms.protection.transport
    names = terms.names(stage.kind)
    lanes["metrics"] = encode_metrics(metrics, names, terms.metric_range, transport)
    return Work(lanes, _weight(terms, stage.kind, metrics), shown)


def _run(
    terms: Terms, message: Message, context: Context, call_next: ClientAppCallable
) -> tuple[Message, list[Made], list[Step]]:
    watching: AbstractContextManager[list[Step]] = nullcontext([])
    if terms.deployment is not None:
        watching = watched_steps()
    try:
        with watched() as made, watching as steps:
            reply = call_next(message, context)
    except TrilemmaError:
        raise
    except Exception as error:  # Flower would send its text, which may quote records
        raise InvalidInput(f"the app raised {type(error).__name__}: {error}.") from error
    if reply.has_error():
        raise InvalidInput(f"the app answered with an error: {reply.error.reason}.")
    return reply, made, steps


def _only_metrics(content: RecordDict) -> dict[str, Any]:
    if len(content.metric_records) > 1:
        raise InvalidInput(
            f"a reply holds one MetricRecord, got {len(content.metric_records)}; put everything "
            "into one."
        )
    return dict(next(iter(content.metric_records.values()), {}))


def _weight(terms: Terms, kind: Kind, metrics: dict[str, Any]) -> int:
    """The weight of this client: 1, or its number of records."""
    if terms.by_record or (kind == "train" and terms.weighting == "equal"):
        return 1
    value = metrics.get(terms.weighted_by)
    if isinstance(value, list) or value is None or not float(value).is_integer() or value < 1:
        raise InvalidInput(
            f"metric {terms.weighted_by!r} must be a whole number of records, at least 1, got "
            f"{value!r}; report it, or use weighting='equal'."
        )
    return int(value)
