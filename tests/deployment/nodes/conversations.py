"""A server that lies, and two nodes whose data differ in one record: what each of them answers.

A conversation is drawn from a number: crafted models, askings that are repeated, reordered, cut or
forged, of all kinds. What is compared is everything but the bytes of protected payloads: which
error, in which words, or which lanes, of which lengths.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tests.deployment.nodes.driver import RUN, DictStore
from torch.nn.functional import binary_cross_entropy, cross_entropy

from trilemma.crypto.keyfiles import save_private
from trilemma.crypto.paillier import PrivateKey
from trilemma.deployment.nodes import server_rounds
from trilemma.deployment.nodes.answering import answer
from trilemma.deployment.nodes.app_answers import Call, Reply
from trilemma.deployment.nodes.node import Node
from trilemma.deployment.nodes.node_training import local_update
from trilemma.deployment.nodes.server_rounds import ServerRound
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind, Terms
from trilemma.entropy import System
from trilemma.errors import TrilemmaError
from trilemma.execution.durable_file import KeptFile
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transports import fixed_point
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.records.records import Records
from trilemma.updates import Layout

NODES = (3, 40, 55)
TARGET = 40
COUNT, FEATURES = 8, 3
NOISE = "randomization:variance=0.04,clip=1.0"
SHARING = "secret-sharing:max_weight=1000"
METRICS: Mapping[str, Any] = {"metrics": ("train_loss",), "evaluate_metrics": ("eval_loss",)}
SPECIAL = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e19, -1e30, 1e-30, 1e-42, 0.0, 1.0)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
    )


LAYOUT = Layout.of(network())


def deployed(**training: Any) -> Deployment:
    local = LocalTraining(lr=0.5, **training)
    return Deployment(
        local,
        LAYOUT.size,
        clients=3,
        cohort=3,
        threshold=3,
        rounds=30,
        participation=local.participation,
    )


@cache
def terms_by_name() -> dict[str, Terms]:
    clipped = deployed(batch=COUNT, record_clip=0.3)
    poisson = deployed(batch=4, record_clip=0.3, sampling="poisson")
    own = deployed(batch=COUNT)
    return {
        "clipped": Terms.deployed(f"randomization:variance=0.04+{SHARING}", clipped, budget=2.0),
        "poisson": Terms.deployed("randomization:variance=0.04", poisson),
        "unclipped": Terms.deployed(f"{NOISE}+{SHARING}", deployed(batch=4, sampling="poisson")),
        "watched": Terms.deployed(f"{NOISE}+compression:keep=0.5", own),
        "metrics": Terms.of(SHARING, **METRICS),
        "plain": Terms.of("none", **METRICS, weighting="equal"),
        "paillier": Terms.of(_paillier("open"), **METRICS),
        "blind": Terms.of(_paillier("blind"), **METRICS),
    }


def _paillier(mode: Any) -> Protection:
    return Protection((), Paillier(bits=512, mode=mode, max_weight=1000, insecure=True))


@cache
def key() -> tuple[PrivateKey, Path]:
    """The federation's key and its file."""
    made = PrivateKey.generate(System(), bits=512, insecure=True)
    file = Path(mkdtemp()) / "key"
    save_private(made, file)
    return made, file


def records(special: float | None, label: int) -> Records:
    """Eight records; the first alone has a third feature that is not zero, and this label."""
    draw = torch.Generator().manual_seed(5)
    inputs = torch.rand(COUNT, FEATURES, generator=draw)
    inputs[:, 2] = 0.0
    labels = torch.arange(COUNT) % 2
    if special is not None:
        inputs[0, 2], labels[0] = special, label
    return Records(inputs, labels)


def crafted(draw: np.random.Generator) -> torch.Tensor:
    """Weights [m]: usual ones, with any numbers in some places, or where the third feature is."""
    usual = draw.normal(size=LAYOUT.size) * draw.choice([0.0, 1e-40, 1e-20, 1.0, 1e18, 3e37])
    weights = torch.from_numpy(usual.astype(np.float32))
    read = torch.zeros(LAYOUT.size, dtype=torch.bool)
    read[2 : 3 * FEATURES : FEATURES] = True
    if draw.random() < 0.3:
        read = torch.from_numpy(draw.random(LAYOUT.size) < 0.2)
    values = draw.choice(SPECIAL, size=LAYOUT.size).astype(np.float32)
    return torch.where(read, torch.from_numpy(values), weights)


def losses() -> dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    def overflows(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(4.0 * outputs, labels)

    def divides(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(outputs / outputs.abs().sum(1, keepdim=True).sqrt(), labels)

    def raises(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return binary_cross_entropy(outputs.softmax(1)[:, 0], labels.float())

    return {
        "usual": cross_entropy,
        "overflows": overflows,
        "divides": divides,
        "raises": raises,
    }


@dataclass
class World:
    """Three nodes and what a server has seen of one; the two others have the same data always."""

    terms: Terms
    data: Records
    habit: str = "usual"
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = cross_entropy
    heard: list[Stage] = field(default_factory=list)
    transcript: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stores = {node: DictStore() for node in NODES}

    def node(self, number: int) -> Node:
        config = {
            "trilemma-ledger": "ledger",
            "trilemma-data": f"ward {number}",
            "trilemma-key": str(key()[1]),
        }
        return Node.of(self.terms, RUN, number, config, self.stores[number])

    def call(self, number: int, weights: torch.Tensor) -> Callable[[Stage], Call]:
        def call(stage: Stage) -> Call:
            base = weights
            if self.terms.blind:
                base = weights - self.node(number).change(weights).float()
            run = self.run if number == TARGET else self.idle
            return Call(LAYOUT.unflatten(base), LAYOUT, base, lambda: run(base, stage))

        return call

    def idle(self, weights: torch.Tensor, stage: Stage) -> Reply:
        """What the others do."""
        return Reply({}, {self.terms.weighted_by: COUNT})

    def run(self, weights: torch.Tensor, stage: Stage) -> Reply:
        """What an app does, in its habit."""
        model = network()
        named = dict(model.named_parameters())
        with torch.no_grad():
            for name, values in LAYOUT.unflatten(weights).items():
                named[name].copy_(values)
        metrics: dict[str, object] = {self.terms.weighted_by: COUNT}
        if stage.kind == "train" and self.terms.by_record:
            local_update(model, self.loss, self.data, self.terms)
        else:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
            loss = self.loss(model(self.data.inputs), self.data.labels)
            value = float(loss.detach())
            if self.habit == "stops" and not math.isfinite(value):
                raise ValueError(f"a loss of {value}")
            if stage.kind == "train" and (self.habit != "skips" or value < 2):
                torch.autograd.backward(loss)
                optimizer.step()
            if self.habit != "hides" or value < 2:
                metrics |= {"train_loss": value, "eval_loss": value}
        return Reply({name: item.detach() for name, item in named.items()}, metrics)

    def ask(self, number: int, kind: Kind, stages: list[Stage], weights: torch.Tensor) -> Any:
        """The node's reply, or its error as text; the target's goes into the transcript."""
        try:
            made: Any = answer(self.node(number), kind, stages, self.call(number, weights))
            told: Any = [
                (item.kind, item.number, item.cohort, item.size, _lengths(item)) for item in made
            ]
        except TrilemmaError as error:
            made, told = None, f"{type(error).__name__}: {error}"
        if number == TARGET:
            self.transcript.append((kind, told))
        return made


def _lengths(stage: Stage) -> list[tuple[str, int]]:
    return [(lane, len(data)) for lane, data in sorted(stage.blobs.items())]


@contextmanager
def in_memory() -> Iterator[None]:
    """A ledger without its file, which is tested elsewhere and takes most of the time."""
    documents: dict[Path, str] = {}

    def read(file: KeptFile, make: Callable[[Any], Any], empty: Any) -> Any:
        return make(json.loads(documents[file.path])) if file.path in documents else empty

    def write(file: KeptFile, data: Any) -> None:
        documents[file.path] = json.dumps(data)

    with patch.multiple(KeptFile, held=lambda file: nullcontext(), read=read, write=write):
        yield


def converse(world: World, number: int) -> None:
    """One conversation, the same for every world but for what the nodes answer."""
    draw = np.random.default_rng(number)
    names = np.random.default_rng((number, 2))  # of sessions, on which public places depend
    named = SimpleNamespace(token_hex=lambda size: names.bytes(size).hex())
    any_sum = patch.object(fixed_point, "_MOST_SATURATED", math.inf)  # a sum is payload
    with in_memory(), any_sum, patch.object(server_rounds, "secrets", named):
        _converse(world, draw)


def _converse(world: World, draw: np.random.Generator) -> None:
    numbers: dict[Kind, int] = {"train": 0, "evaluate": 0}
    sums: list[Stage] = []
    for _ in range(int(draw.integers(1, 3))):
        kind: Kind = "train" if draw.random() < 0.7 else "evaluate"
        numbers[kind] += int(draw.choice([0, 1, 1, 1, 2]))
        weights = torch.zeros(LAYOUT.size) if world.terms.blind else crafted(draw)
        size = LAYOUT.size if kind == "train" else 0
        public = key()[0].public if world.terms.protection.transport.brings == "key" else None
        try:
            made = ServerRound(world.terms, RUN, kind, max(1, numbers[kind]), NODES, size, public)
        except TrilemmaError:
            continue
        for _ in range(6):
            if not made.waiting:
                break
            plan = [_forgery(draw) for _ in range(int(draw.choice([0, 0, 0, 1, 2])))]
            after = [_forgery(draw) for _ in range(int(draw.choice([0, 0, 1, 3])))]
            if not _exchange(world, made, kind, weights, plan, after, sums):
                break
        if made.encrypted is not None and draw.random() < 0.5:
            sums.append(replace(made.encrypted, version=len(sums) + 1))


Forgery = Callable[[list[Stage], list[Stage]], tuple[Kind | None, list[Stage]]]


def _exchange(
    world: World,
    made: ServerRound,
    kind: Kind,
    weights: torch.Tensor,
    plan: list[Forgery],
    after: list[Forgery],
    sums: list[Stage],
) -> bool:
    replies = {}
    for node in made.nodes:
        stage = made.message(node)
        assert stage is not None
        asked: list[tuple[Kind, list[Stage]]] = [(kind, [stage, *sums])]
        if node == TARGET:
            for forged in plan:
                other, stages = forged([stage], world.heard)
                asked.insert(0, (other or kind, stages))
            for forged in after:
                other, stages = forged([stage], world.heard)
                asked.append((other or kind, stages))
            world.heard.append(stage)
        for at, stages in asked:
            found = world.ask(node, at, stages, weights) if stages else None
            if found and node not in replies and found[0].session == stage.session:
                replies[node] = found[0]
    try:
        made.receive(replies)
    except TrilemmaError as error:
        world.transcript.append(f"the server: {type(error).__name__}")
        return False
    return True


def _forgery(draw: np.random.Generator) -> Forgery:
    """What a lying server makes of the stage that is due and of those it sent before."""
    choice, place = int(draw.integers(10)), int(draw.integers(1 << 30))

    def forge(due: list[Stage], heard: list[Stage]) -> tuple[Kind | None, list[Stage]]:
        stage = due[0]
        old = heard[place % len(heard)] if heard else stage
        if choice == 0:
            return None, [stage]
        if choice == 1:
            return None, [old]
        if choice == 2:
            return None, [stage, old]
        if choice == 3:
            return None, [old, stage]
        if choice == 4:
            return None, [replace(stage, number=stage.number + place % 3)]
        if choice == 5:
            return "evaluate" if stage.kind == "train" else "train", [stage]
        if choice == 6:
            other: Kind = "evaluate" if stage.kind == "train" else "train"
            return other, [replace(stage, kind=other)]
        if choice == 7:
            return None, [replace(stage, **_field(place))]
        if choice == 8:
            blobs = {lane: data[: place % (len(data) + 1)] for lane, data in stage.blobs.items()}
            return None, [replace(stage, blobs=blobs)]
        lanes = dict(list(stage.blobs.items())[: place % 2])
        return None, [replace(stage, blobs=lanes)]

    return forge


def _field(place: int) -> dict[str, Any]:
    changes: tuple[dict[str, Any], ...] = (
        {"run": 5},
        {"session": "0" * 32},
        {"cohort": (3, 40)},
        {"cohort": (3, 40, 54)},
        {"size": 7},
        {"terms": "none"},
        {"version": 1},
        {"version": 9},
        {"number": 0},
    )
    return changes[place % len(changes)]


def transcripts(number: int) -> Iterator[tuple[str, list[Any]]]:
    """The same conversation with a node that holds an ordinary record, and a special one there."""
    draw = np.random.default_rng((number, 1))
    names = list(terms_by_name())
    name = names[number // 20 % len(names)]
    habit = ("usual", "stops", "skips", "hides")[int(draw.integers(4))]
    loss_name = list(losses())[int(draw.integers(4))]
    special = float(draw.choice([1.0, -1.0, 1e-30, 1e19, -3e38]))
    label = int(draw.choice([0, 1, 1, 2]))
    for data in (records(None, 0), records(special, label)):
        world = World(terms_by_name()[name], data, habit, losses()[loss_name])
        converse(world, number)
        yield f"{name}, {habit}, {loss_name}, {special}, {label}", world.transcript
