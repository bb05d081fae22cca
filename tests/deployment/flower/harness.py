"""Flower's own objects, driven in this process: a grid that calls ClientApps directly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
    UserConfig,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from tests.deployment.nodes.driver import steps_as_measured
from tests.deployment.nodes.pins import pin

from trilemma.deployment.flower import Terms, protect_mod
from trilemma.deployment.flower.messages import read_stages, write_stages
from trilemma.deployment.nodes.stages import Stage
from trilemma.protection.protection import Protection
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

RUN = 77
NODES = (3, 2**63 + 5, 2**64 - 9, 40)  # Flower draws them from 64 bits
RECORDS = dict(zip(NODES, (10, 20, 30, 40), strict=True))
LOSSES = dict(zip(NODES, (2.5, 0.25, 1.0, 3.75), strict=True))
MODEL = {
    "weight": np.linspace(-2, 2, 60, dtype=np.float32).reshape(12, 5),
    "bias": np.linspace(0, 1, 5, dtype=np.float32),
    "batches": np.array(7),
}


SHARING = Terms(Protection((), SecretSharing(max_weight=100)), metrics=("train_loss",))


def initial() -> ArrayRecord:
    return ArrayRecord({name: Array(values) for name, values in MODEL.items()})


def moves(node: int) -> dict[str, np.ndarray]:
    """What a node adds to each array in a round."""
    draw = np.random.default_rng(node % 1000)
    return {
        name: draw.uniform(-0.5, 0.5, values.shape).astype(np.float32)
        for name, values in MODEL.items()
        if values.dtype.kind == "f"
    }


def fedavg(nodes: int = 4) -> FedAvg:
    return FedAvg(min_train_nodes=nodes, min_evaluate_nodes=nodes, min_available_nodes=nodes)


def train_only(nodes: int = 4) -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)


def small_paillier(mode: Literal["open", "blind"] = "open") -> Paillier:
    """For speed alone."""
    return Paillier(bits=512, mode=mode, max_weight=100, insecure=True)


def toy_app(terms: Terms | None, seen: list[dict[str, np.ndarray]] | None = None) -> ClientApp:
    """An app whose training is a fixed step, so that aggregations compare exactly."""
    app = ClientApp(mods=[] if terms is None else [protect_mod(terms)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        assert list(message.content.keys()) == ["arrays", "config"], "the app sees its own records"
        arrays = message.content.array_records["arrays"]
        step = moves(context.node_id)
        if terms is not None and terms.deployment is not None:
            steps_as_measured(terms.deployment.local_training)
        after = {
            name: Array(array.numpy() + step[name]) if name in step else array
            for name, array in arrays.items()
        }
        metrics = MetricRecord(
            {"num-examples": RECORDS[context.node_id], "train_loss": LOSSES[context.node_id]}
        )
        content = RecordDict({"arrays": ArrayRecord(after), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        if seen is not None:
            seen.append({name: array.numpy() for name, array in arrays.items()})
        mean = float(np.mean(arrays["weight"].numpy()))
        metrics = MetricRecord({"num-examples": RECORDS[context.node_id], "eval_mean": mean})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


@dataclass
class DirectGrid(Grid):
    """Calls each node's ClientApp; `on_message` may drop (None) or change, `on_reply` change."""

    app: ClientApp
    nodes: Iterable[int] = NODES
    node_config: UserConfig = field(default_factory=dict)
    on_message: Callable[[int, Message], Message | None] = lambda exchange, message: message
    on_reply: Callable[[int, Message], Message] = lambda exchange, reply: reply
    sent: list[list[Message]] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)
    ready: list[Message] = field(default_factory=list)
    contexts: dict[int, Context] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
        for node in self.nodes:
            config = dict(self.node_config)
            self.contexts[node] = Context(RUN, node, config, RecordDict(), {})

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        batch = list(messages)
        exchange = len(self.sent)
        self.sent.append(batch)
        for message in batch:
            message.metadata.__dict__["_message_id"] = f"{exchange}-{message.metadata.dst_node_id}"
            delivered = self.on_message(exchange, message)
            if delivered is None:  # Flower reports the lost node from the SuperLink's number
                reply = Message(Error(5, "node unavailable"), reply_to=message)
                reply.metadata.__dict__["_src_node_id"] = 1
                self.ready.append(reply)
                continue
            context = self.contexts[message.metadata.dst_node_id]
            try:
                reply = self.app(delivered, context)
            except Exception as error:
                reply = Message(Error(2, repr(error)), reply_to=message)
            changed = self.on_reply(exchange, reply)
            changed.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
            self.received.append(changed)
            self.ready.append(changed)
        return [message.metadata.message_id for message in batch]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies, self.ready = self.ready, []
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        batch = list(messages)
        return self.pull_messages(self.push_messages(batch)) if batch else []

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    @property
    def run(self) -> Run:
        return Run.create_empty(next(iter(self.contexts.values())).run_id)

    def set_run(self, run: Run) -> None:
        raise AssertionError("not used")

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise AssertionError("not used")


def mean_of(nodes: Iterable[int], name: str, rounds: int = 1) -> np.ndarray:
    """The model after FedAvg over these nodes, by hand in double precision."""
    chosen = list(nodes)
    total = sum(RECORDS[node] for node in chosen)
    change = sum(RECORDS[node] / total * moves(node)[name].astype(float) for node in chosen)
    return np.asarray(MODEL[name] + rounds * change)


def changed(message: Message, change: Callable[[Stage], Stage]) -> Message:
    stages = [change(stage) for stage in read_stages(message.content)]
    message.content = RecordDict({**message.content, **write_stages(stages)})
    return message


def cut(stage: Stage) -> Stage:
    return replace(stage, blobs={name: data[:-3] for name, data in stage.blobs.items()})


def with_ledgers(direct: DirectGrid, folder: Path) -> DirectGrid:
    """The grid, with a ledger of each node's own."""
    for node, context in direct.contexts.items():
        ledger = {"trilemma-ledger": str(folder / f"ledger-{node}"), "trilemma-data": "records"}
        context.node_config = {**context.node_config, **ledger}
    return direct


def with_pins(direct: DirectGrid, folder: Path) -> DirectGrid:
    """The grid, whose nodes have pinned each other's identities."""
    for node, files in pin(folder, direct.contexts).items():
        context = direct.contexts[node]
        context.node_config = {**context.node_config, **files}
    return direct
