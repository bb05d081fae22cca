"""What an app makes of a stage, as the vectors that a node sends: always there, always numbers.

A node that has counted an asking answers it. A refusal, or an answer of another length, would tell
a server that sends crafted models what they do to single records. So whatever an app fails to make
leaves as zeros, a metric beyond its range as the edge of that range, and the reason stays in the
node's log. How long training takes is not hidden.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch

from trilemma.deployment.nodes.app_steps import Step, require_training, watched_steps
from trilemma.deployment.nodes.metrics import encode_metrics
from trilemma.deployment.nodes.node import Node
from trilemma.deployment.nodes.node_training import LocalResult, only_made, watched
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.updates import Layout

__all__ = ["Call", "Reply", "Work", "work_of"]

_LOG: Final = logging.getLogger("trilemma.nodes")
_LARGEST: Final = 1 << 53  # weight of a client, where a transport has no cap


@dataclass(frozen=True, eq=False)
class Reply:
    """What the app answered: its arrays by name (none after evaluating), and its metrics."""

    arrays: Mapping[str, torch.Tensor]
    metrics: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Call:
    """The app's part of a stage: the model that it is shown, and how to run it.

    `start` [m] holds the arrays of the `layout` as one vector. `shown` is a digest of all that the
    app is shown: with pinned identities, updates made from other models or settings do not add up.
    """

    arrays: Mapping[str, torch.Tensor]
    layout: Layout
    start: torch.Tensor
    run: Callable[[], Reply]
    shown: bytes = b""


@dataclass(frozen=True, eq=False)
class Work:
    """What leaves the node under its terms: a vector for each lane, and the weight of all."""

    lanes: dict[str, torch.Tensor]
    weight: int
    shown: bytes


def work_of(node: Node, stage: Stage, call: Call) -> Work:
    """Runs the app; zeros stand for an update or a metric that it does not make as it should."""
    terms = node.terms
    update, metrics = torch.zeros_like(call.start), dict[str, object]()
    try:
        reply, made, steps = _run(terms, call)
        metrics.update(reply.metrics)
        if stage.kind == "train":
            update = _update(terms, call, reply.arrays, made, steps)
    except (Exception, SystemExit) as error:  # of any kind: it may depend on a record
        _LOG.error(
            "node %d sends zeros in round %d (%s), as what its app made is of no use: %s",
            node.number,
            stage.number,
            stage.kind,
            error,
            exc_info=error.__cause__ if isinstance(error, TrilemmaError) else error,
        )
    transport, names = terms.protection.transport, terms.names(stage.kind)
    lanes = {"metrics": encode_metrics(metrics, names, terms.metric_range, transport)}
    if stage.kind == "train":
        lanes["update"] = update
    return Work(lanes, _weight(node, stage, metrics), call.shown)


def _run(terms: Terms, call: Call) -> tuple[Reply, list[LocalResult], list[Step]]:
    watching: AbstractContextManager[list[Step]] = nullcontext([])
    if terms.deployment is not None:
        watching = watched_steps()
    with watched() as made, watching as steps:
        return call.run(), made, steps


def _update(
    terms: Terms,
    call: Call,
    after: Mapping[str, torch.Tensor],
    made: Sequence[LocalResult],
    steps: Sequence[Step],
) -> torch.Tensor:
    """The update [m] in the terms' units, if the app made it as they ask."""
    if terms.by_record or (terms.deployment is not None and made):
        update = only_made(made, call.layout, call.arrays, after)
    else:
        if terms.deployment is not None:
            require_training(steps, terms.deployment.local_training)
        change = call.start - call.layout.flatten(after).to(call.start.dtype)
        update = change / terms.learning_rate / terms.units(call.layout)
    update = update.to(call.start.dtype)
    if not torch.isfinite(update).all():
        raise InvalidInput("the update holds NaN or infinity; lower the learning rate.")
    return update


def _weight(node: Node, stage: Stage, metrics: Mapping[str, object]) -> int:
    """1, or the number of records that the app reports, up to the transport's cap.

    Where it reports none, as an app that raises, the number that it reported last stands.
    """
    terms, name = node.terms, node.terms.weighted_by
    if (stage.kind == "train" and terms.weighting == "equal") or (
        stage.kind == "evaluate" and terms.limited
    ):
        return 1
    value, fixed = metrics.get(name), terms.protection.transport.fixed
    most = _LARGEST if fixed is None else fixed.max_weight
    reported = None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, int | float) and whole and value >= 1:
        reported = min(int(value), most)
        if value > most:
            _LOG.error("%s = %d is more than max_weight = %d; raise it.", name, value, most)
    else:
        _LOG.error(
            "metric %r must be a whole number of records, at least 1, got %r; report it, or use "
            "weighting='equal'.",
            name,
            value,
        )
    return node.weight(reported)
