"""What an attack is: views of many independent units in, reconstructions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

import torch

from trilemma.errors import InvalidInput
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining, Task
    from trilemma.observations import Observation
    from trilemma.records.records import Records

__all__ = [
    "KNOWLEDGE_LEVELS",
    "Attack",
    "Knowledge",
    "KnowledgeLevel",
    "Likelihood",
    "Reconstructions",
    "View",
    "common_view",
    "links",
    "public_records",
]

KnowledgeLevel = Literal["nothing", "public", "candidates", "rest"]
KNOWLEDGE_LEVELS: Final[tuple[KnowledgeLevel, ...]] = ("nothing", "public", "candidates", "rest")
"""The measured kinds of knowledge, from the least knowledge to the most."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What an attacker has of one unit besides the model, the protocol and the messages.

    Each knowledge adds to the one below. `public`: records of the same kind that belong
    to no client. `candidate_set`: N candidates, of which exactly one is behind the observation;
    `population`: records on which the distribution of all the others may be fitted. `rest`: every
    other record behind the observation, K·S of them in their places, with the candidate set's
    first candidate standing where the sought record does, at `slot`; `present` is false where a
    record only pads a batch of another size (None: all are there). `others` [m] is what the rest
    makes of the observation, where that is a sum over records: who knows the rest computes it
    (None: left to the attack). `rate` is the probability that the round used the sought record at
    all, where that is not known (None: it did).
    """

    public: Records | None = None
    candidate_set: Records | None = None
    population: Records | None = None
    rest: Records | None = None
    slot: int = 0
    present: torch.Tensor | None = None
    rate: float | None = None
    others: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class View:
    """All that an attacker has of one unit: the public task and weights [m], and what it read.

    `round` is its number in the training, and `training` the number of that, where views of one
    training hold the same sought record. What an attack draws for a view goes by both, whichever
    others are attacked in the same call.
    """

    task: Task
    weights: torch.Tensor
    observation: Observation
    local_training: LocalTraining
    input_spec: InputSpec
    knowledge: Knowledge = Knowledge()
    round: int = 0
    training: int | None = None

    def __post_init__(self) -> None:
        size = self.task.layout.size
        for name, vector in (("weights", self.weights), ("update", self.observation.update)):
            if tuple(vector.shape) != (size,):
                raise InvalidInput(
                    f"the view's {name} must be a flat vector of the model's {size} "
                    f"coordinates, got shape {tuple(vector.shape)}."
                )

    @property
    def records(self) -> int:
        """Number of records behind the observation: clients times records a client."""
        return self.observation.clients * self.local_training.unit_size


class Likelihood(Protocol):
    """What was read of single inputs, settled before a candidate is seen."""

    def log_likelihood(self, inputs: torch.Tensor) -> torch.Tensor:
        """How well inputs [N, *shape] fit what was read, [N], up to a constant."""
        ...


@dataclass(frozen=True, eq=False)
class Reconstructions:
    """What an attack found for N units of S records each.

    inputs [N, S, *shape], clamped to the range; labels [N, S] class indices (or regression
    targets [N, S, ...]; None where an attack does not tell); loss [N], the matching loss of the
    chosen restart; failed [N], true where every restart diverged. Records come in no order; one
    alone where only the record that messages share is sought. `guesses` [N, S, *shape] are held
    against candidates instead, where they tell more of them apart. `readings` [N] decide instead
    of both where values are exact: they say what is known of single inputs (None: nothing).

    An attacker that owns the candidate set gives its belief instead: log_probability [N, C] over
    the C candidates, and inputs [N, 1, *shape], the likeliest of them. Beliefs add up over
    independent observations of one record, up to a constant a row.

    An attacker that finds a batch's tokens but not its texts gives tokens [N, V], the probability
    of each that it was there; inputs are then the likeliest of them, to be shown.
    """

    inputs: torch.Tensor
    labels: torch.Tensor | None
    loss: torch.Tensor
    failed: torch.Tensor
    log_probability: torch.Tensor | None = None
    tokens: torch.Tensor | None = None
    guesses: torch.Tensor | None = None
    readings: Sequence[Likelihood | None] | None = None

    def cpu(self) -> Reconstructions:
        """The same with its tensors on the host, brought at once."""
        own: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        here: dict[str, Any] = {
            name: value.cpu() for name, value in own.items() if isinstance(value, torch.Tensor)
        }
        return replace(self, **here)


@runtime_checkable
class Attack(Protocol):
    """An attack on a batch of independent units that share task, local training and shapes.

    `knows` is the least knowledge that it needs; what a view holds beyond that it does not read.
    One that `links` views of a training has that as a class attribute, and so has one that
    `searches`: on a GPU it takes about as long for many views as for one.
    """

    @property
    def name(self) -> str: ...

    @property
    def knows(self) -> KnowledgeLevel: ...

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions: ...


def links(attack: Attack) -> bool:
    """Whether what it finds in a view depends on the other views of the same training."""
    return bool(getattr(attack, "links", False))


def common_view(views: Sequence[View]) -> View:
    """The first view, after checking that the views of one call form one batch."""
    if not views:
        raise InvalidInput("an attack needs at least one view.")
    first = views[0]
    for place, view in enumerate(views):
        if (
            view.task is not first.task
            or view.local_training != first.local_training
            or view.input_spec != first.input_spec
            or view.observation.clients != first.observation.clients
            or view.observation.clip != first.observation.clip
            or view.observation.limit != first.observation.limit
        ):
            raise InvalidInput(
                f"the views of one call must share task, local training, input range, clip norm "
                f"and number of clients, and view {place} differs from the first; attack it in a "
                f"call of its own."
            )
    return first


def public_records(views: Sequence[View], attack: str) -> Records:
    """The public records that all views of one call share; without any, `attack` is named.

    What they teach is what single records do, which BatchNorm does not show.
    """
    if views[0].task.normalises_batches:
        raise InvalidInput(
            f"the attack {attack!r} reads classes off single records' updates, but BatchNorm "
            f"makes each depend on its batch; attack with 'dlg', 'inverting-gradients' or "
            f"'gaussian-posterior'."
        )
    public = views[0].knowledge.public
    if public is None or len(public) < 2:
        raise InvalidInput(
            f"the attack {attack!r} learns from public records; give each view's knowledge at "
            f"least two, or attack with 'dlg', which needs none."
        )
    for view in views[1:]:
        other = view.knowledge.public
        if other is not public and (
            other is None or other.inputs is not public.inputs or other.labels is not public.labels
        ):
            raise InvalidInput(
                "the views of one call must share their public records; attack the others in a "
                "call of their own."
            )
    return public
