"""What is attacked: a model, its loss, the clients' records and how they train."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import torch
from torch import nn

from trilemma.attacks import check_task
from trilemma.beliefs.line_up import distance_of
from trilemma.errors import InvalidInput
from trilemma.estimation.suitability import check_loss, check_update, first_line, is_checked
from trilemma.learning import LocalTraining, Task
from trilemma.learning.modules import fitted
from trilemma.records.columns import cells, column_hits
from trilemma.records.range import InputSpec
from trilemma.records.records import Dataset, Records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trilemma.beliefs.line_up import Distance
    from trilemma.beliefs.recovery import Criterion
    from trilemma.records.columns import Column

__all__ = ["Scenario", "Source"]

_TRIED: Final = 8  # records on which the loss is tried


@dataclass(frozen=True, eq=False)
class Scenario:
    """A federation as an attacker meets it; checks itself once, when it is made.

    `loss(outputs, labels)` is the mean over a batch. `clients` may be one client's own records or
    public proxy data. Input shape and range are read from the clients' data. `initialise(model)`
    redraws the weights in place from torch's global generator (None: `reset_parameters`).
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
    to zero over the training with `server_decay`. `remarks` say what of the model is not trained
    and attacked as it was given.
    """

    model: nn.Module
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
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
    device: str = "cpu"
    records: tuple[Records, ...] = field(init=False, repr=False)
    test_records: Records = field(init=False, repr=False)
    public_records: Records = field(init=False, repr=False)
    task: Task = field(init=False, repr=False)
    input_spec: InputSpec = field(init=False)
    remarks: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_device(self.device)
        if len(self.clients) == 0:
            raise InvalidInput("a scenario needs at least one client with records.")
        records = tuple(Records.of(c, f"client {k}") for k, c in enumerate(self.clients))
        test = Records.of(self.test, "the test set")
        public = test if self.public is None else Records.of(self.public, "the public records")
        spec = InputSpec.of(records, (public, test), self.columns)
        _check_tokens(self.model, spec)
        if self.rounds < 1:
            raise InvalidInput(
                f"rounds (of the federation's training) must be at least 1, got {self.rounds}."
            )
        if self.cohort is not None and not 1 <= self.cohort <= len(records):
            raise InvalidInput(
                f"cohort (clients of a round) must lie in 1 .. {len(records)}, the number of "
                f"clients, got {self.cohort}."
            )
        for k, client in enumerate(records):
            if len(client) < self.local_training.unit_size:
                raise InvalidInput(
                    f"client {k} has {len(client)} records, but an update is made of "
                    f"{self.local_training.unit_size}; use a smaller batch or fewer clients."
                )
        model, remarks = fitted(self.model)
        model = model.to(self.device)
        outputs = _outputs(model, records[0].inputs[:4].to(self.device))
        classes = self._classes(records, outputs)
        task = Task(model, self.loss, classes)
        for name, value in (
            ("records", records),
            ("test_records", test),
            ("public_records", public),
            ("classes", classes),
            ("task", task),
            ("remarks", remarks),
            ("input_spec", spec),
        ):
            object.__setattr__(self, name, value)
        for k, client in enumerate(records):
            _check_labels(client, classes, f"client {k}")
        _check_labels(test, classes, "the test set")
        _check_labels(public, classes, "the public records")
        unit = records[0][torch.arange(self.local_training.unit_size)]
        inputs, labels = unit.inputs.to(self.device), unit.labels.to(self.device)
        if not task.runs_on(records[0].inputs[: self.local_training.batch]):
            raise InvalidInput(
                f"the model's BatchNorm finds no variance in batches of "
                f"{self.local_training.batch}; use larger batches, model.eval(), or GroupNorm."
            )
        if is_checked():
            return
        check_task(task, spec, inputs, labels)
        tried = self._tried()
        check_loss(task, tried.inputs, tried.labels, self.local_training)
        check_update(task, inputs, labels, self.local_training, derivative=not spec.discrete)

    @property
    def per_round(self) -> int:
        """Clients that take part in a round."""
        return len(self.records) if self.cohort is None else self.cohort

    def with_local_training(self, **changes: Any) -> Self:
        """The same federation with other local training, e.g. `batch=8`."""
        return replace(self, local_training=replace(self.local_training, **changes))

    @cached_property
    def couples_records(self) -> bool:
        """Whether a record's share of an update depends on the records beside it."""
        tried = self._tried()
        return self.task.couples_records(tried.inputs, tried.labels)

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
        found = [int(each) for each in made.flatten().nan_to_num(nan=-1.0)]
        held, words = set(truth.flatten().tolist()), self.words
        named = [words[each] if 0 <= each < len(words) else f"{each}" for each in found]
        named = ["–" if each < 0 else name for name, each in zip(named, found, strict=True)]
        return [(name, each in held) for name, each in zip(named, found, strict=True)]

    def pooled(self) -> Records:
        """All clients' records together."""
        return Records(
            torch.cat([client.inputs for client in self.records]),
            torch.cat([client.labels for client in self.records]),
        )

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """A number for each record of the pool; exact copies share theirs."""
        return self.pooled().kinds()

    def _tried(self) -> Records:
        """Records on which the loss is tried, the first client's again and again if it has few."""
        first = self.records[0]
        some = first[torch.arange(_TRIED) % len(first)]
        return Records(some.inputs.to(self.device), some.labels.to(self.device))

    def _classes(self, records: Sequence[Records], outputs: torch.Tensor) -> int | None:
        if any(client.labels.is_floating_point() for client in records):
            return None
        if outputs.ndim != 2:
            raise InvalidInput(
                f"integer labels need a model that returns [batch, classes], but it returns "
                f"shape {tuple(outputs.shape)}."
            )
        if self.classes is not None and self.classes != outputs.shape[1]:
            raise InvalidInput(
                f"classes is {self.classes}, but the model returns {outputs.shape[1]} scores."
            )
        return int(outputs.shape[1])


Source = Scenario | Callable[[], Scenario]
"""A scenario, or what makes it: workers make their own rather than receive the data."""


def _check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InvalidInput(f"device {device!r} is none that torch knows; use 'cpu'.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            "device 'cuda' was asked for, but torch finds no CUDA GPU here; use 'cpu'."
        )


def _check_tokens(model: nn.Module, spec: InputSpec) -> None:
    """Whole numbers are tokens only where a model looks them up."""
    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    if spec.vocabulary is not None and not tables:
        raise InvalidInput(
            f"the inputs are whole numbers up to {spec.vocabulary - 1}, taken as tokens, but this "
            f"{type(model).__name__} has no torch.nn.Embedding; convert them to float."
        )


def _outputs(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    try:
        with torch.no_grad():
            outputs = copy.deepcopy(model)(inputs)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"the model cannot take inputs of shape {tuple(inputs.shape)} "
            f"({first_line(error)}); check that model and data belong together."
        ) from error
    if not isinstance(outputs, torch.Tensor):
        raise InvalidInput(f"the model must return a tensor, got {type(outputs).__name__}.")
    if not torch.isfinite(outputs).all():
        raise InvalidInput(
            f"the model returns NaN or infinity for the first {len(inputs)} records; check its "
            f"weights and the scale of the inputs."
        )
    return outputs


def _check_labels(records: Records, classes: int | None, whose: str) -> None:
    if classes is None:
        if not torch.isfinite(records.labels.to(torch.float64)).all():
            raise InvalidInput(f"the targets of {whose} contain NaN or infinity.")
        return
    low, high = int(records.labels.min()), int(records.labels.max())
    if low < 0 or high >= classes:
        raise InvalidInput(
            f"the labels of {whose} run from {low} to {high}, but the model knows classes 0 to "
            f"{classes - 1}."
        )
