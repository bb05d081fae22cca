"""How good a model is: its loss and metric on records, and each record's part in the metric."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch

from trilemma.errors import InvalidInput
from trilemma.quantities import one_of, shown

if TYPE_CHECKING:
    from trilemma.federation.cohorts import Federated
    from trilemma.records.records import Records

__all__ = ["Metric", "Score", "Scored", "read_scores", "write_scores"]

_EVALUATED: Final = 4096  # records at a time


@dataclass(frozen=True)
class Metric:
    """How good a model is: `function(outputs [n, ...], labels [n, ...])`, of all records at once.

    `name` is what it is called ("": as the function is); `better` says of which there should be
    more: higher or lower numbers.

    >>> import math
    >>> perplexity = lambda scores, tokens: math.exp(0.5)
    >>> Metric(perplexity, "perplexity", better="lower").shown
    'minus perplexity'
    """

    function: Callable[[torch.Tensor, torch.Tensor], float]
    name: str = ""
    better: Literal["higher", "lower"] = "higher"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(
                f"metric must be a function of outputs and labels, got {shown(self.function)}."
            )
        one_of("better", self.better, ("higher", "lower"))
        usual = getattr(self.function, "__name__", type(self.function).__name__)
        object.__setattr__(self, "name", self.name or usual.strip("<>"))

    def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> float:
        """A number of which more is better: minus the function's where lower is."""
        value = float(self.function(outputs, labels))
        return -value if self.better == "lower" else value

    @property
    def shown(self) -> str:
        """What that number is called."""
        return f"minus {self.name}" if self.better == "lower" else self.name


@dataclass(frozen=True, eq=False)
class Scored:
    """A model on some records: loss, metric, and the scores [n] whose mean the metric is.

    Accuracy scores 1 for a right answer and 0 for a wrong one; minus the loss scores minus that
    of the record alone. There are none (None) where the metric is another, or no mean of these.
    """

    loss: float
    metric: float
    scores: torch.Tensor | None


class Score:
    """Loss and metric of a model on records: accuracy, minus the loss, or what was asked for."""

    def __init__(
        self,
        federated: Federated,
        metric: Callable[[torch.Tensor, torch.Tensor], float] | None,
    ) -> None:
        self.federated, self.task, self.metric = federated, federated.task, metric

    def of_test(self, weights: torch.Tensor, number: int) -> Scored:
        """On the test records, at weights [m] after round `number`."""
        return self._on(self.federated.test_records, weights, number)

    def of_clients(self, weights: torch.Tensor, number: int) -> tuple[Scored, ...]:
        """On each client's own records."""
        return tuple(self._on(record, weights, number) for record in self.federated.records)

    def _on(self, records: Records, weights: torch.Tensor, number: int) -> Scored:
        labels = records.labels.to(weights.device)
        with torch.no_grad():
            parts = [
                self.task.judged(weights, part.to(weights.device))
                for part in torch.split(records.inputs, _EVALUATED)
            ]
            outputs = torch.cat(parts)
            loss = float(self.task.loss_of(outputs, labels))
            if self.metric is not None:
                return Scored(loss, _number(self.metric, outputs, labels, number), None)
            if self.task.classes is not None:
                right = (outputs.argmax(1) == labels).float().cpu()
                return Scored(loss, float(right.mean()), right)
            scores = self._minus_losses(outputs, labels)
        metric = _finite(-loss, number)
        if scores is None or not math.isclose(float(scores.mean()), metric, rel_tol=1e-3):
            return Scored(loss, metric, None)
        return Scored(loss, metric, scores)

    def _minus_losses(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
        """Minus the loss [n] of each record alone, None where vmap does not run it."""

        def one(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return self.task.loss_of(output[None], label[None])

        try:
            losses: torch.Tensor = self.task.way.vmap(one)(outputs, labels)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            return None
        return -losses.float().cpu()


def _number(
    metric: Callable[[torch.Tensor, torch.Tensor], float],
    outputs: torch.Tensor,
    labels: torch.Tensor,
    number: int,
) -> float:
    try:
        value = metric(outputs, labels)
        found = float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"the metric must return a number, and did not ({error}); return one for the whole "
            "of the records."
        ) from None
    return _finite(found, number)


def _finite(found: float, number: int) -> float:
    if not math.isfinite(found):
        raise InvalidInput(
            f"the metric returned {found} after round {number}; let it return a finite "
            "number for any outputs and labels."
        )
    return found


def write_scores(scores: torch.Tensor | None) -> str | None:
    """Scores [n] as text: one bit a record where all are 0 or 1, else 32.

    >>> write_scores(torch.tensor([1.0, 0.0, 1.0]))
    '3:oA=='
    """
    if scores is None:
        return None
    values = scores.numpy()
    if np.isin(values, (0.0, 1.0)).all():
        return f"{len(values)}:" + base64.b64encode(np.packbits(values != 0).tobytes()).decode()
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def read_scores(text: str | None) -> torch.Tensor | None:
    """The scores [n] that `write_scores` wrote."""
    if text is None:
        return None
    count, colon, packed = text.rpartition(":")
    try:
        body = base64.b64decode(packed, validate=True)
        if not colon:
            return torch.from_numpy(np.frombuffer(body, "<f4").astype(np.float32))
        bits = np.unpackbits(np.frombuffer(body, np.uint8), count=int(count))
    except (ValueError, binascii.Error):
        raise InvalidInput(f"scores are written as base64, got {text[:40]!r}.") from None
    return torch.from_numpy(bits.astype(np.float32))
