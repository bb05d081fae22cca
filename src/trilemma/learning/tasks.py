"""A model and its loss as pure functions of flat weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import torch
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.errors import InvalidInput
from trilemma.learning.batch_norm_statistics import applied, rates
from trilemma.learning.constants import converted, holding
from trilemma.learning.losses import Loss, class_loss, differ, in_precision, label_batches
from trilemma.learning.modules import copied, normalises_batches, scores
from trilemma.learning.precision import whole_floats
from trilemma.learning.ways import Way
from trilemma.updates import Layout

__all__ = ["Task"]

_ALIKE: Final = 1e-3  # relative, of what is computed in two ways


@dataclass(frozen=True)
class Task:
    """A model's architecture and loss as pure functions of flat weights [m].

    `loss(outputs, targets)` is the mean over the batch. `classes` is None for regression. Buffers
    (BatchNorm statistics in eval mode) and frozen parameters are constants taken from the module,
    in the precision of the weights; BatchNorm in train mode, without any (`fitted`), works with
    those of the batch. `statistics` are the `rates` of running ones that are sent. `way` is how
    all that is mapped over records and differentiated is run (`way_of`). Buffers that are
    `changing` whenever the model is used are those of the module at each call.
    """

    model: torch.nn.Module
    loss: Loss
    classes: int | None
    way: Way = field(default=Way(), compare=False)
    changing: tuple[str, ...] = ()
    layout: Layout = field(init=False)
    aliases: tuple[tuple[str, str], ...] = field(init=False)
    statistics: torch.Tensor | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", Layout.of(self.model))
        object.__setattr__(self, "aliases", tuple(_aliases(self.model)))
        object.__setattr__(self, "statistics", rates(self.model, self.layout))

    def outputs(self, weights: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """The model's outputs [S, ...] at flat weights [m] for inputs [S, ...]."""
        # Attention's fused kernels have no second derivative, which attacks need.
        with sdpa_kernel(SDPBackend.MATH):
            return self.run(self.layout.unflatten(weights), inputs)

    def judged(self, weights: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """The outputs [n, ...] of the model in use: by running statistics, where they are sent."""
        if self.statistics is None:
            return self.outputs(weights, inputs)
        with applied(self.model):
            outputs = self.outputs(weights, inputs)
        if not torch.isfinite(outputs).all():
            raise InvalidInput(
                "a running variance of BatchNorm is no longer positive, and by it the model "
                "answers nothing; protect less, send no statistics (sends_statistics=False), or "
                "use GroupNorm."
            )
        return outputs

    def run(self, tensors: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        """The model's outputs with tensors, by name, in the place of its parameters.

        Torch's own way with tied parameters leaves the tensors in a module that has two names.
        """
        tied = {alias: tensors[name] for alias, name in self.aliases if name in tensors}
        held = converted(self.model, self._dtype, next(iter(tensors.values())).dtype)
        if self.changing:
            dtype = next(iter(tensors.values())).dtype
            for name in self.changing:
                own = self.model.get_buffer(name)
                held[name] = (own.to(dtype) if own.dtype == self._dtype else own).clone()
        named = {**held, **tensors, **tied}
        if self.way.kind == "looped":
            made = holding(self.model, named)(inputs)
        else:
            made = functional_call(self.model, named, (inputs,), tie_weights=False)
        outputs: torch.Tensor = scores(made)
        return outputs

    def mean_loss(
        self, weights: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """The loss at flat weights; targets are what `loss` takes, or soft labels [S, classes]."""
        return self.loss_of(self.outputs(weights, inputs), targets)

    def loss_of(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of outputs [S, ...]; soft labels [S, classes] are as in `class_loss`."""
        loss = in_precision(self.loss, self._dtype, outputs.dtype)
        if self.classes is None:
            return loss(outputs, targets)
        return class_loss(loss, outputs, targets, self.way)

    @property
    def _dtype(self) -> torch.dtype:
        """What the model is trained in."""
        return self.model.get_parameter(self.layout.names[0]).dtype

    @property
    def normalises_batches(self) -> bool:
        """Whether the model itself couples records: an output depends on those beside it."""
        return normalises_batches(self.model)

    def runs_on(self, inputs: torch.Tensor) -> bool:
        """Whether the model takes a batch [S, ...] so small: BatchNorm may find no variance."""
        like = next(self.model.parameters())
        given = inputs.to(like if inputs.is_floating_point() else like.device)
        try:
            with torch.no_grad():
                copied(self.model)(given)  # whose buffers may change
        except ValueError:
            return False
        return True

    def couples_records(self, inputs: torch.Tensor, targets: torch.Tensor) -> bool:
        """Whether a batch's loss is anything but the mean of its records' losses.

        Tried at the model's own weights on records [S, ...], and on their outputs with labels of
        every class. Then a record's share of an update depends on the others beside it.
        """
        if self.normalises_batches:
            return True
        weights = self.layout.flatten(dict(self.model.named_parameters())).detach()
        rows = range(inputs.shape[0])

        def one_by_one(at: torch.Tensor) -> torch.Tensor:
            losses = [self.mean_loss(at, inputs[[i]], targets[[i]]) for i in rows]
            return torch.stack(losses).mean()

        if differ(lambda at: self.mean_loss(at, inputs, targets), one_by_one, weights, self.way):
            return True
        if self.classes is None:
            return False
        outputs = self.outputs(weights, inputs).detach()

        def coupled(labels: torch.Tensor) -> bool:
            def single(at: torch.Tensor) -> torch.Tensor:
                losses = [self.loss_of(at[[i]], labels[[i]]) for i in rows]
                return torch.stack(losses).mean()

            return differ(lambda at: self.loss_of(at, labels), single, outputs, self.way)

        return any(
            coupled(labels.to(outputs.device))
            for labels in label_batches(self.classes, inputs.shape[0])
        )

    @whole_floats()
    def weighs_records(self, inputs: torch.Tensor, targets: torch.Tensor) -> bool:
        """Whether a batch's loss couples records [S, ...] by what it is divided by, if it does.

        As a mean over all tokens that are not padded: each record's gradient is a multiple,
        positive or zero, of that of its own loss. With one label a record a class's weight would
        go.
        """
        if self.normalises_batches or self.classes is not None:
            return False
        weights = self.layout.flatten(dict(self.model.named_parameters())).detach()
        rows = range(inputs.shape[0])
        outputs = self.outputs(weights, inputs).detach()
        alone = torch.cat([self.outputs(weights, inputs[[i]]).detach() for i in rows])
        if (outputs - alone).norm() > _ALIKE * outputs.norm():
            return False
        gradient = self.way.grad(self.loss_of)
        together = gradient(outputs, targets)
        for i in rows:
            own, part = gradient(outputs[[i]], targets[[i]])[0].flatten(), together[i].flatten()
            if not torch.isfinite(own).all():  # a record that is all padding adds nothing
                own = torch.zeros_like(own)
            along = (part @ own) / (own @ own).clamp(min=torch.finfo(own.dtype).tiny)
            if along < 0 or (part - along * own).norm() > _ALIKE * part.norm():
                return False
        return True


def _aliases(model: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """Further names of parameters, with their first, in modules that each are named once."""
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    for path, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            name = f"{path}.{own}" if path else own
            if first[id(parameter)] != name:
                yield name, first[id(parameter)]
