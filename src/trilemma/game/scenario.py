"""What is attacked: a model, its loss, the clients' records and how they train."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import torch
from torch import nn

from trilemma.beliefs.candidate_set import distance_of
from trilemma.errors import InvalidInput
from trilemma.federation.cohorts import pooled
from trilemma.federation.deployment_terms import ServerTraining
from trilemma.federation.scoring import Metric
from trilemma.game.differentiability import (
    COUPLED,
    check_loss,
    check_shapes,
    check_statistics,
    check_update,
    is_checked,
)
from trilemma.game.validation import (
    check_clients_kind,
    check_device,
    check_labels,
    check_local_training_kind,
    check_loss_kind,
    check_mean,
    check_model_kind,
    check_tokens,
    outputs_of,
    tried,
)
from trilemma.learning import LocalTraining, Task, way_of
from trilemma.learning.losses import Loss
from trilemma.learning.modules import changing, copied, fitted, settled_lazily, stilled
from trilemma.quantities import counted, whole
from trilemma.records.columns import cells, column_hits
from trilemma.records.parts import Unpacking
from trilemma.records.range import InputSpec
from trilemma.records.records import Dataset, Records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trilemma.beliefs.candidate_set import Distance
    from trilemma.beliefs.recovery import Criterion
    from trilemma.records.columns import Column

__all__ = ["Scenario", "Source", "made_on"]

_TRIED: Final = 8  # records on which the loss is tried
_DEVICE: ContextVar[str] = ContextVar("where scenarios are made", default="cpu")


_FRESH: Final = (
    "A model that is trained already. Every training, and every model that is attacked, starts "
    "from fresh random weights, whatever the model holds (frozen tensors stay); for yours let "
    "Scenario(initialise=...) be a function that loads its weights."
)
_OWN: Final = (
    "Trainings that start from other weights. Each one, and every model that is attacked, starts "
    "from what initialise makes."
)


@contextmanager
def made_on(device: str) -> Iterator[None]:
    """Scenarios made meanwhile that name no device are made on this one, and tried there alone."""
    before = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(before)


@dataclass(frozen=True, eq=False, repr=False)
class Scenario:
    """A federation as an attacker meets it; it checks itself once, when it is made.

    `loss(outputs, labels)` is the mean over a batch; labels are a class a record, or whatever the
    loss takes: numbers, or several whole ones, a class a token or pixel. Records whose labels are
    None are their own: `loss(outputs, inputs)`. A record may have several inputs, in a tuple, or
    in a dict by the keywords of forward(). `metric` says how good a model is (None: accuracy, or
    minus the loss where there are no classes); of a function alone more is better. `clients` may
    be one client's own records or public proxy data. Input shape and range are read from the
    clients' data. `initialise(model)` redraws the weights in place from torch's global generator
    (None: `reset_parameters`).
    `public` holds records of the same kind that belong to no client, which an attacker may own
    (None: the test set stands for them). `rounds` is how long the federation trains, `cohort` how
    many of its clients take part in a round, drawn anew for each (None: all).
    `distance(reconstructions [R, *shape], candidates [C, *shape]) -> [R, C]` says how far a
    reconstruction is from a candidate (None: the mean squared difference; of a table, that of its
    standardised columns; of text, the share of other tokens). `columns` says what the entries of
    flat inputs stand for, and makes them a table; inputs of whole numbers are tokens, which
    `words` are shown for.
    `criterion` says when a record counts as recovered (None: PSNR above the lowest of 20, 25, 30
    dB that a blind guess reaches for at most 1 % of the records; of a table, above 80 % of its
    columns; of text, above 90 % of its tokens). `show_records` allows pictures
    of records; leave it off unless the data is public. `server_lr` is the server's step when it
    applies the mean update (None: the local rate for FedSGD, 1 for FedAvg), which falls linearly
    to zero over the training with `server_decay`. `sends_statistics`: clients send BatchNorm's
    running statistics along, as a client that sends `model.state_dict()` does; then they are a
    part of the update, for protections and for attackers. `remarks` say where trainings start, and
    what of the model is not trained and attacked as it was given.
    """

    model: nn.Module
    loss: Callable[[torch.Tensor, Any], torch.Tensor]
    clients: Sequence[Dataset | Records]
    test: Dataset | Records
    local_training: LocalTraining = field(default_factory=LocalTraining)
    name: str = "scenario"
    classes: int | None = None
    initialise: Callable[[nn.Module], None] | None = None
    criterion: Criterion | None = None
    show_records: bool = False
    server_lr: float | None = None
    server_decay: bool = False
    public: Dataset | Records | None = None
    rounds: int = 150
    cohort: int | None = None
    distance: Distance | None = None
    columns: Sequence[Column] = ()
    words: Sequence[str] = ()
    device: str = field(default_factory=_DEVICE.get)
    sends_statistics: bool = False
    metric: Metric | Callable[[torch.Tensor, torch.Tensor], float] | None = None
    records: tuple[Records, ...] = field(init=False)
    test_records: Records = field(init=False)
    public_records: Records = field(init=False)
    task: Task = field(init=False)
    input_spec: InputSpec = field(init=False)
    remarks: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_device(self.device)
        check_model_kind(self.model)
        check_loss_kind(self.loss)
        check_clients_kind(self.clients)
        check_local_training_kind(self.local_training)
        self._read_records()
        self._check_rounds()
        some = tried(self.records[0], (*self.records[1:], self.test_records, self.public_records))
        self._settle(some)
        model, loss, remarks = self._made_to_run(some)
        outputs = outputs_of(model, some.to(self.device))
        classes = self._classes(outputs)
        metric = self.metric
        self._keep(
            classes=classes,
            task=Task(model, loss, classes, changing=changing(model, some.to(self.device))),
            remarks=(*remarks, _FRESH if self.initialise is None else _OWN),
            metric=metric if metric is None or isinstance(metric, Metric) else Metric(metric),
        )
        for k, client in enumerate(self.records):
            check_labels(client, classes, f"client {k}")
        check_labels(self.test_records, classes, "the test set")
        check_labels(self.public_records, classes, "the public records")
        seen = self.records[0].labels[: len(outputs)].to(self.device)
        check_mean(loss, outputs[: len(seen)], seen)
        self._try_an_update()

    def retrained(
        self,
        *,
        local_training: LocalTraining,
        server_lr: float | None,
        server_decay: bool,
        test: Records,
        public: Records,
    ) -> Scenario:
        """The same clients and model, trained and judged otherwise; its update is not tried anew.

        To try a model and to record its steps takes as long as a short training does.
        """
        made = object.__new__(type(self))
        made._keep(**{item.name: getattr(self, item.name) for item in fields(self)})
        made._keep(local_training=local_training, server_lr=server_lr, server_decay=server_decay)
        made._keep(test=test, test_records=test, public=public, public_records=public)
        made._check_rounds()
        made._check_batch()
        coupled = local_training.by_record and not is_checked() and self.couples_records
        if coupled and not self.weighs_records:
            raise InvalidInput(COUPLED)
        return made

    def _keep(self, **values: Any) -> None:
        """Sets fields that follow from others; a scenario is frozen once it is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _read_records(self) -> None:
        """The records of clients, test and public, and what an input looks like."""
        if len(self.clients) == 0:
            raise InvalidInput("a scenario needs at least one client with records.")
        records = tuple(Records.of(c, f"client {k}") for k, c in enumerate(self.clients))
        test = Records.of(self.test, "the test set")
        public = test if self.public is None else Records.of(self.public, "the public records")
        spec = InputSpec.of(records, (public, test), self.columns)
        check_tokens(self.model, spec)
        self._keep(records=records, test_records=test, public_records=public, input_spec=spec)

    def _check_rounds(self) -> None:
        """Rounds, cohorts and batches must be such as these clients can have."""
        records, training = self.records, self.local_training
        counted("rounds (of the federation's training)", self.rounds)
        if self.cohort is not None and not 1 <= whole("cohort", self.cohort) <= len(records):
            raise InvalidInput(
                f"cohort (clients of a round) must lie in 1 .. {len(records)}, the number of "
                f"clients, got {self.cohort}."
            )
        for k, client in enumerate(records):
            if len(client) < training.unit_size and training.sampling != "full":
                raise InvalidInput(
                    f"client {k} has {len(client)} records, but an update is made of "
                    f"{training.unit_size}; use a smaller batch or fewer clients."
                )
        if self.sends_statistics and training.by_record:
            raise InvalidInput(
                "sends_statistics is for whole batches, which BatchNorm's statistics are of, but "
                "record_clip and Poisson sampling count record by record; use neither, or "
                "GroupNorm."
            )

    def _made_to_run(self, some: torch.Tensor) -> tuple[nn.Module, Loss, tuple[str, ...]]:
        """The model as it runs on these inputs, its loss, and what was changed for that."""
        model, remarks = fitted(
            self.model, self.local_training.lr if self.sends_statistics else None
        )
        model = model.to(self.device)
        everyone = (*self.records, self.test_records, self.public_records)
        if len({record.unlabelled for record in everyone}) > 1:
            raise InvalidInput(
                "some records have labels and some have none; give all of them labels, or none."
            )
        loss: Loss = self.loss
        if self.input_spec.parts:
            unpacking = Unpacking(self.input_spec.parts)
            model.register_forward_pre_hook(unpacking, prepend=True, with_kwargs=True)
            if self.unlabelled:
                loss = _OfInputs(self.loss, unpacking)
        outputs_of(model, some.to(self.device))  # refused in a sentence, if it is
        return model, loss, (*remarks, *stilled(model, some.to(self.device)))

    def _try_an_update(self) -> None:
        """How the model is run, and whether one unit's update is what its derivative says."""
        task, training, spec = self.task, self.local_training, self.input_spec
        unit = self.records[0][torch.arange(training.unit_size) % len(self.records[0])]
        inputs, labels = unit.inputs.to(self.device), unit.labels.to(self.device)
        self._check_batch()
        task = replace(task, way=way_of(task, inputs, labels))
        self._keep(task=task)
        if is_checked():
            return
        sample, first = self._tried(), training.batch
        if not self.unlabelled:
            check_shapes(task, sample.inputs, sample.labels)
        if self.sends_statistics:
            check_statistics(self.as_given(), task, inputs[:first], labels[:first], training)
        check_loss(task, sample.inputs, sample.labels, training)
        derivative = not (spec.discrete or task.way.once)
        check_update(task, inputs, labels, training, derivative=derivative)

    def _check_batch(self) -> None:
        batch = self.local_training.batch
        some = self.records[0].inputs[:batch]
        if self.task.normalises_batches and not self.task.runs_on(some):
            raise InvalidInput(
                f"the model's BatchNorm finds no variance in batches of {batch}; use larger "
                f"batches, model.eval(), or GroupNorm."
            )

    def __repr__(self) -> str:
        """What it is called and how large it is; no record is ever part of a message or a log."""
        records = sum(map(len, self.records))
        return (
            f"Scenario({self.name!r}, clients={len(self.records)}, records={records}, "
            f"parameters={self.task.layout.size})"
        )

    @property
    def per_round(self) -> int:
        """Clients that take part in a round."""
        return len(self.records) if self.cohort is None else self.cohort

    def with_local_training(self, **changes: Any) -> Self:
        """The same federation with other local training, e.g. `batch=8`."""
        return replace(self, local_training=replace(self.local_training, **changes))

    @property
    def server(self) -> ServerTraining:
        """How the server applies the mean update."""
        own = self.local_training
        usual = own.lr if own.algorithm == "fedsgd" else 1.0
        return ServerTraining(self.server_lr or usual, self.server_decay)

    @cached_property
    def couples_records(self) -> bool:
        """Whether a record's share of an update depends on the records beside it."""
        sample = self._tried()
        return self.task.couples_records(sample.inputs, sample.labels)

    def _settle(self, some: torch.Tensor) -> None:
        """Has lazy layers take their shapes before anything is copied."""
        try:
            parts = self.input_spec.parts
            given = Unpacking(parts).given(some) if parts else (some,)
            if isinstance(given, dict):
                settled_lazily(self.model, **given)
            else:
                settled_lazily(self.model, *given)
        except (RuntimeError, ValueError, TypeError):
            return  # what is wrong is refused when the model is tried

    def as_given(self) -> nn.Module:
        """A copy of the model as it was given, that takes records as they are kept here."""
        model = copied(self.model).to(self.device)
        if self.input_spec.parts:
            unpacking = Unpacking(self.input_spec.parts)
            model.register_forward_pre_hook(unpacking, prepend=True, with_kwargs=True)
        return model

    @cached_property
    def weighs_records(self) -> bool:
        """Whether records are coupled, but by nothing else than what the loss divides by."""
        sample = self._tried()
        return self.couples_records and self.task.weighs_records(sample.inputs, sample.labels)

    @property
    def unlabelled(self) -> bool:
        """Whether records are their own labels."""
        return self.records[0].unlabelled

    @cached_property
    def foreign_labels(self) -> bool:
        """Whether labels are numbers of another shape than what the model returns for a record."""
        labels = self.records[0].labels
        if self.classes is not None or not labels.is_floating_point():
            return False
        some = self._tried().inputs[:2]
        weights = self.task.layout.flatten(dict(self.task.model.named_parameters())).detach()
        with torch.no_grad():
            return self.task.outputs(weights, some).shape[1:] != labels.shape[1:]

    @property
    def whole_labels(self) -> bool:
        """Whether a record's labels are several whole numbers: a class a token or pixel."""
        return self.classes is None and not self.records[0].labels.is_floating_point()

    @property
    def measure(self) -> Distance:
        """How far reconstructions are from candidates."""
        return self.distance or distance_of(self.input_spec)

    @property
    def heads(self) -> tuple[str, ...]:
        """What to write over the cells of a record: its columns, or the places of its words."""
        if self.input_spec.vocabulary is not None:
            return tuple(f"word {place + 1}" for place in range(self.input_spec.size))
        return tuple(column.name for column in self.input_spec.columns)

    def cells(self, made: torch.Tensor, truth: torch.Tensor) -> list[tuple[str, bool]]:
        """A reconstruction [*shape] of a table's or text's record, and which cells are right.

        A word is right if the record holds it, wherever it stands.
        """
        columns = self.input_spec.columns
        if columns:
            hits = column_hits(columns, made, truth).tolist()
            return list(zip(cells(columns, made), hits, strict=True))
        found = [int(item) for item in made.flatten().nan_to_num(nan=-1.0)]
        held, words = set(truth.flatten().tolist()), self.words
        named = [words[item] if 0 <= item < len(words) else f"{item}" for item in found]
        named = ["–" if item < 0 else name for name, item in zip(named, found, strict=True)]
        return [(name, item in held) for name, item in zip(named, found, strict=True)]

    def pooled(self) -> Records:
        """All clients' records together; not to be changed."""
        return _pooled(self)

    def pooled_there(self) -> Records:
        """The same on the scenario's device."""
        here = torch.device(self.device).type == "cpu"
        return self.pooled() if here else Records(*pooled(self))

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """A number for each record of the pool; exact copies share theirs."""
        return self.pooled().kinds()

    def _tried(self) -> Records:
        """Records on which the loss is tried, the first client's, repeated if it has few."""
        first = self.records[0]
        some = first[torch.arange(_TRIED) % len(first)]
        return Records(some.inputs.to(self.device), some.labels.to(self.device))

    def _classes(self, outputs: torch.Tensor) -> int | None:
        """The number of classes, None where labels are numbers, or several a record."""
        if any(c.labels.is_floating_point() or c.labels.ndim > 1 for c in self.records):
            return None
        if outputs.ndim != 2:
            raise InvalidInput(
                f"one integer label a record needs a model that returns [batch, classes], but it "
                f"returns shape {tuple(outputs.shape)}."
            )
        if self.classes is not None and self.classes != outputs.shape[1]:
            raise InvalidInput(
                f"classes is {self.classes}, but the model returns {outputs.shape[1]} scores."
            )
        return int(outputs.shape[1])


@dataclass(frozen=True)
class _OfInputs:
    """A loss of what the model makes of several inputs, and of these as they were given."""

    loss: Callable[[torch.Tensor, Any], torch.Tensor]
    unpacking: Unpacking

    def __call__(self, outputs: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return self.loss(outputs, self.unpacking.given(inputs))


Source = Scenario | Callable[[], Scenario]
"""A scenario, or what makes it: workers make their own rather than receive the data."""


@lru_cache(maxsize=1)  # not in the scenario, which would take it along to every worker
def _pooled(scenario: Scenario) -> Records:
    return Records(
        torch.cat([client.inputs for client in scenario.records]),
        torch.cat([client.labels for client in scenario.records]),
    )
