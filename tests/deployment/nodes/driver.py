"""Nodes and their server without a framework: what an adapter does, in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from trilemma.deployment.nodes.answering import answer
from trilemma.deployment.nodes.app_answers import Call, Reply
from trilemma.deployment.nodes.node import Node
from trilemma.deployment.nodes.server_rounds import ServerRound
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind, Terms
from trilemma.errors import TrilemmaError
from trilemma.learning import LocalTraining
from trilemma.updates import Layout

RUN = 77
SIZE = 6


@dataclass
class DictStore:
    memory: dict[str, Any] = field(default_factory=dict)
    change: torch.Tensor | None = None

    def keep_change(self, change: torch.Tensor) -> None:
        self.change = change


def update_of(number: int, size: int = SIZE) -> torch.Tensor:
    """A node's update [m], the same in every round."""
    return torch.rand(size, generator=torch.Generator().manual_seed(number)) - 0.5


def steps_as_measured(training: LocalTraining) -> None:
    """What a node sees of an app that trains in this way."""
    weight = torch.nn.Parameter(torch.zeros(1))
    for _ in range(training.steps):
        torch.nn.Identity()(torch.ones(training.batch))
        torch.optim.SGD([weight], lr=training.lr).step()


def call_of(number: int, stage: Stage, terms: Terms) -> Call:
    """An app that moves a model of zeros by a node's update, and reports one record."""
    start = torch.zeros(stage.size)

    def run() -> Reply:
        if terms.deployment is not None and stage.kind == "train":
            steps_as_measured(terms.deployment.local_training)
        after = start - terms.learning_rate * update_of(number, stage.size)
        return Reply({"weight": after}, {terms.weighted_by: 1})

    return Call({"weight": start}, Layout(("weight",), ((stage.size,),)), start, run)


@dataclass
class Federation:
    """Nodes by number; `on_stage` may change what the server sends to a node."""

    terms: Terms
    config: Mapping[int, Mapping[str, Any]]
    run: int = RUN
    on_stage: Callable[[int, Stage], Stage] = lambda node, stage: stage
    refusals: list[str] = field(default_factory=list)
    sent: list[Stage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stores = {number: DictStore() for number in self.config}

    def node(self, number: int) -> Node:
        return Node.of(self.terms, self.run, number, self.config[number], self.stores[number])

    def answer(self, number: int, stage: Stage) -> Stage:
        return self.answers(number, [stage])[0]

    def answers(self, number: int, stages: list[Stage]) -> list[Stage]:
        def call(stage: Stage) -> Call:
            return call_of(number, stage, self.terms)

        return answer(self.node(number), stages[0].kind, stages, call)

    def round(
        self, number: int, kind: Kind = "train", size: int = SIZE, terms: Terms | None = None
    ) -> ServerRound:
        """One round in which whoever refuses drops out."""
        cohort = tuple(sorted(self.config))
        made = ServerRound(terms or self.terms, self.run, kind, number, cohort, size)
        while made.waiting:
            replies = {}
            for node in made.nodes:
                stage = made.message(node)
                assert stage is not None
                try:
                    replies[node] = self.answer(node, self.on_stage(node, stage))
                    self.sent.append(replies[node])
                except TrilemmaError as error:
                    self.refusals.append(f"{type(error).__name__}: {error}")
            made.receive(replies)
        return made
