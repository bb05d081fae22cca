"""What a node's own app calls to train: the update of the terms, and nothing else.

Clipping and sampling happen record by record, which a mod that sees whole updates cannot do. A
protected node therefore watches its app (`watched`), and where single records are protected it
lets only the vector leave that `local_update` made.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from trilemma.entropy import System
from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.federation.server_parts import means_of
from trilemma.learning import LocalTraining, Task, client_update, draw_rows, way_of
from trilemma.learning.modules import centred, shifted_biases
from trilemma.records.records import Dataset, Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.deployment.nodes.terms import Terms
    from trilemma.federation.deployment_terms import Deployment
    from trilemma.learning.losses import Loss
    from trilemma.updates import Layout

__all__ = ["LocalResult", "local_update", "only_made", "watched"]

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class LocalResult:
    """An update, and the parameters by name that it was made at and that it led to."""

    update: Tensors
    before: Tensors
    after: Tensors


_LOG: Final = logging.getLogger("trilemma.nodes")
_WATCHING: Final[ContextVar[list[LocalResult] | None]] = ContextVar("watching", default=None)


@contextmanager
def watched() -> Iterator[list[LocalResult]]:
    """Collects the updates that `local_update` makes inside."""
    made: list[LocalResult] = []
    token = _WATCHING.set(made)
    try:
        yield made
    finally:
        _WATCHING.reset(token)


def local_update(
    model: torch.nn.Module, loss: Loss, dataset: Dataset | Records, terms: Terms
) -> torch.Tensor:
    """Trains the model in place on some of the records, as the terms say; the update [m].

    The records are drawn by the system's generator, each record's gradient is clipped, and the
    sum is divided by a constant (`trilemma.learning`). A record with a gradient that is not finite
    contributes nothing. `loss(outputs, labels)` is a mean over a batch. Where the deployment
    centres layers, gradients are those of (W, b + W m), and the model keeps its own (W, b).
    Call it once for a message, and send `model.state_dict()` as it leaves it.
    """
    if terms.deployment is None:
        raise InvalidInput(
            "these terms do not say how a node trains; take them from a verdict by from_verdict, "
            "or give them a deployment."
        )
    training = terms.deployment.local_training
    records = Records.of(dataset, "this node's data")
    _check(model, len(records), terms.deployment)
    means, named = {}, dict(model.named_parameters())
    if (server := terms.deployment.server) is not None:
        means = means_of(server.centring, named)
    # A class is an index here, never a soft label.
    task = Task(centred(model, means) if means else model, loss, None)
    before = {name: value.detach().clone() for name, value in named.items()}
    start = task.layout.flatten({**before, **shifted_biases(before, means)})
    rows, present = draw_rows(training, len(records), cast(np.random.Generator, _SystemDraws()))
    chosen = records[rows]
    # Tried on zeros: a way that went by the records would tell of them.
    blank = torch.zeros_like(records.inputs[:2]), torch.zeros_like(records.labels[:2])
    task = replace(task, way=way_of(task, *blank, attacked=False))
    update = _update(task, start, chosen.to(str(start.device)), training, present)
    step = training.lr if training.algorithm == "fedsgd" else 1.0
    after = task.layout.unflatten(start - step * update)
    after |= shifted_biases({**before, **after}, means, -1)
    with torch.no_grad():
        for name, values in after.items():
            named[name].copy_(values)
    if (watching := _WATCHING.get()) is not None:
        watching.append(LocalResult(task.layout.unflatten(update), before, after))
    return update


def _update(
    task: Task,
    start: torch.Tensor,
    records: Records,
    training: LocalTraining,
    present: torch.Tensor | None,
) -> torch.Tensor:
    """The update [m] of these records, of which the `present` count.

    Where records count one by one, one on which the model fails contributes nothing, and the
    others what they do: a client that sent nothing for it would tell of that record, and by more
    than its clip.
    """

    def made(rows: torch.Tensor, here: torch.Tensor | None) -> torch.Tensor:
        inputs, labels = records.inputs[rows], records.labels[rows]
        update = client_update(task, start, inputs, labels, training, here).detach()
        if not torch.isfinite(update).all():
            raise InvalidInput("the update holds NaN or infinity; lower the learning rate.")
        return update

    def fails(row: torch.Tensor) -> Exception | None:
        try:
            made(row[None], torch.ones(1, device=start.device))
        except Exception as error:  # the model's own code may raise anything
            return error
        return None

    rows = torch.arange(len(records), device=start.device)
    here = None if present is None else present.to(start.device)
    try:
        return made(rows, here)
    except Exception as error:
        reasons = [fails(row) if training.by_record else error for row in rows]
        good = torch.tensor([reason is None for reason in reasons], device=start.device)
        if not good.any():
            if isinstance(error, TrilemmaError):
                raise
            raise InvalidInput(
                f"the model or its loss does not run record by record ({error}); replace what "
                "needs a whole batch, or measure without record_clip."
            ) from error
    _LOG.warning("%d of %d records contribute nothing", int((~good).sum()), len(rows))
    filled = torch.where(good, rows, rows[good][0])
    return made(filled, good.to(start) if here is None else here * good)


def only_made(
    made: Sequence[LocalResult], layout: Layout, before: Tensors, after: Tensors
) -> torch.Tensor:
    """The one update [m] that was made, if it alone turned the arrays `before` into `after`.

    Arrays of the layout that are no parameters must stay as they were.
    """
    if len(made) != 1:
        raise InvalidInput(
            f"a reply under these terms is made by one call of local_update, got {len(made)}; "
            "call it once in the app's train function."
        )
    only = made[0]
    for name, values in after.items():
        expected = only.after.get(name, before.get(name))
        start = only.before.get(name, before.get(name))
        if expected is None or not torch.equal(values, expected.cpu()):
            raise InvalidInput(
                f"array {name!r} of the reply is not what local_update left in the model; send "
                "model.state_dict() as it is."
            )
        if start is None or not torch.equal(before[name], start.cpu()):
            raise InvalidInput(
                f"local_update was called with another {name!r} than the server sent; load the "
                "message's arrays first."
            )
    still = {name: torch.zeros(()).expand(before[name].shape) for name in layout.names}
    return layout.flatten({**still, **{name: value.cpu() for name, value in only.update.items()}})


def _check(model: torch.nn.Module, count: int, deployment: Deployment) -> None:
    share = deployment.local_training.unit_size / count
    if share > deployment.sampling_rate * (1 + 1e-9):
        raise InvalidInput(
            f"a round draws {deployment.local_training.unit_size} of this node's {count} records, "
            f"a share of {share:.4g}, but {deployment.sampling_rate:.4g} at most was measured; "
            "add records, or measure again with so few."
        )
    if deployment.local_training.record_clip is not None:
        for name, values in model.named_parameters():
            if values.dtype not in (torch.float32, torch.float64):
                raise InvalidInput(
                    f"parameter {name!r} is {values.dtype}, which rounds a gradient beyond its "
                    "clip; train in single or double precision (model.float())."
                )
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.training and module.track_running_stats:
            way_out = (
                "no claim on single records covers them: use GroupNorm, or freeze them with eval()"
                if deployment.local_training.by_record
                else "local_update does not make them: where they were measured with the update, "
                "take the steps with torch.optim.SGD, which the node watches"
            )
            raise InvalidInput(f"layer {name!r} keeps statistics of past batches; {way_out}.")


class _SystemDraws:
    """What `draw_rows` asks of a generator, from the system's own."""

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Uniform numbers on [0, 1), in steps of 2⁻⁵³."""
        words = self._words(math.prod(size)) >> np.uint64(11)
        return words.astype(np.float64).reshape(size) * 2.0**-53

    def choice(self, n: int, size: int, replace: bool) -> NDArray[np.int64]:
        """`size` of n numbers in random order; always without replacement."""
        return np.argsort(self._words(n), kind="stable")[:size]

    def _words(self, count: int) -> NDArray[Any]:
        return np.frombuffer(System().bytes(8 * count), "<u8")
