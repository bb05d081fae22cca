"""What a scenario is given, before anything is measured: each refusal says what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from trilemma.errors import InvalidInput
from trilemma.game.differentiability import first_line
from trilemma.learning import LocalTraining
from trilemma.learning.modules import copied, scores
from trilemma.quantities import shown
from trilemma.records.records import is_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.learning.losses import Loss
    from trilemma.records.range import InputSpec
    from trilemma.records.records import Records

__all__ = [
    "check_clients_kind", "check_device", "check_labels", "check_local_training_kind",
    "check_loss_kind", "check_mean", "check_model_kind", "check_tokens", "outputs_of", "tried",
]  # fmt: skip

_TRIED: Final = 4  # records that the model is tried on
_SUM: Final = 1e-3  # relative, by which a batch and its copy may differ from twice the loss


def check_model_kind(model: Any) -> None:
    """A network of the records' precision, and not the class of one."""
    if isinstance(model, nn.Module):
        _check_precision(model)
        return
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise InvalidInput(
            f"model is the class {model.__name__}, not a network of it; call it, "
            f"model={model.__name__}(...)."
        )
    raise InvalidInput(f"model must be a torch.nn.Module, got {shown(model)}.")


def _check_precision(model: nn.Module) -> None:
    usual = torch.get_default_dtype()  # that of the records
    others = {p.dtype for p in model.parameters() if p.is_floating_point() and p.dtype != usual}
    if others:
        raise InvalidInput(
            f"the model holds {str(others.pop()).removeprefix('torch.')} parameters, but updates "
            f"are computed and attacked in single precision; call model.float()."
        )


def check_loss_kind(loss: Any) -> None:
    """A function of outputs and labels, and not its name or class."""
    if isinstance(loss, type) and issubclass(loss, nn.Module):
        raise InvalidInput(f"loss is the class {loss.__name__}; call it, loss={loss.__name__}().")
    if callable(loss):
        return
    known = isinstance(loss, str) and hasattr(nn.functional, loss)
    way_out = f"torch.nn.functional.{loss}" if known else "torch.nn.functional.cross_entropy, say"
    raise InvalidInput(
        f"loss must be a function of outputs and labels, got {shown(loss)}; give the function "
        f"itself, {way_out}."
    )


def check_clients_kind(clients: Any) -> None:
    """A sequence with one entry for each client, and not one client's data."""
    if isinstance(clients, dict):
        raise InvalidInput("clients is a dict; give its entries, list(clients.values()).")
    if is_pair(clients):
        raise InvalidInput(
            "clients is one pair (inputs, labels), where one for each client is needed; split "
            "your records, or give [(inputs, labels)] for one client."
        )


def check_local_training_kind(local_training: Any) -> None:
    """How an update is made, and not None or its name."""
    if not isinstance(local_training, LocalTraining):
        raise InvalidInput(
            f"local_training must be a LocalTraining, got {shown(local_training)}; write "
            f'LocalTraining("fedsgd", lr=0.1, batch=8), or leave it out for its defaults.'
        )


def check_device(device: str) -> None:
    """One that torch knows and finds."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InvalidInput(f"device {device!r} is none that torch knows; use 'cpu'.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            "device 'cuda' was asked for, but torch finds no CUDA GPU here; use 'cpu'."
        )


def check_tokens(model: nn.Module, spec: InputSpec) -> None:
    """Whole numbers are tokens only where a model looks them up."""
    if spec.vocabulary is None or _tables(model):
        return
    if any(isinstance(module, nn.EmbeddingBag) for module in model.modules()):
        raise InvalidInput(
            "the model looks its tokens up in a torch.nn.EmbeddingBag, which attacks do not know; "
            "use torch.nn.Embedding and the mean of its rows, embedding(tokens).mean(1)."
        )
    raise InvalidInput(
        f"the inputs are whole numbers up to {spec.vocabulary - 1}, taken as tokens, but this "
        f"{type(model).__name__} has no torch.nn.Embedding; convert them to float."
    )


def tried(first: Records, others: Sequence[Records]) -> torch.Tensor:
    """Inputs that the model is tried on: the first few, and of texts the one with the last token.

    A token beyond the embedding may be anywhere.
    """
    some = first.inputs[:_TRIED]
    if some.is_floating_point():
        return some
    last = max((first, *others), key=lambda records: int(records.inputs.max())).inputs
    return torch.cat([some, last[last.flatten(1).amax(1).argmax()][None]])


def outputs_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """What the model makes of a few inputs; a sentence where that is nothing to go on with."""
    halves = _Halves()  # type: ignore[no-untyped-call]  # of torch
    try:
        with torch.no_grad(), halves:
            outputs = scores(copied(model)(inputs))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"the model cannot take inputs of shape {tuple(inputs.shape)} "
            f"({first_line(error)}); {_way_out(model, inputs, error)}."
        ) from error
    if not isinstance(outputs, torch.Tensor):
        raise InvalidInput(f"the model must return a tensor, got {type(outputs).__name__}.")
    if halves.found is not None:
        raise InvalidInput(
            f"the model computes in {halves.found} (torch.autocast, or a cast in its forward()), "
            f"but updates are computed and attacked in single precision; leave that out."
        )
    if not torch.isfinite(outputs).all():
        raise InvalidInput(
            f"the model returns NaN or infinity for the first {len(inputs)} records; check its "
            f"weights and the scale of the inputs."
        )
    return outputs


class _Halves(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """Notes a tensor of half precision, wherever in a model it is made."""

    found: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.dtype in (torch.float16, torch.bfloat16):
            self.found = str(made.dtype).removeprefix("torch.")
        return made


def _tables(model: nn.Module) -> list[nn.Embedding]:
    return [module for module in model.modules() if isinstance(module, nn.Embedding)]


def _way_out(model: nn.Module, inputs: torch.Tensor, error: Exception) -> str:
    tables = _tables(model)
    if tables and isinstance(error, IndexError) and not inputs.is_floating_point():
        sizes = " and ".join(str(table.num_embeddings) for table in tables)
        return (
            f"the records hold the token {int(inputs.max())}, and the model's torch.nn.Embedding "
            f"has {sizes} rows, counted from 0: give it one for each token"
        )
    if tables and inputs.is_floating_point():
        return "torch.nn.Embedding looks up whole numbers: give tokens as int64"
    return "check that model and data belong together"


def check_labels(records: Records, classes: int | None, whose: str) -> None:
    """Numbers, or classes that the model has a score for."""
    if classes is None:
        if not torch.isfinite(records.labels.to(torch.float64)).all():
            raise InvalidInput(f"the targets of {whose} contain NaN or infinity.")
        return
    low, high = int(records.labels.min()), int(records.labels.max())
    if low >= 0 and high < classes:
        return
    way_out = "number the labels from 0, or give the model a score for each class"
    if classes == 1:
        way_out = (
            "let it return 2 scores for cross_entropy, or for binary_cross_entropy_with_logits "
            "give the labels as float of shape [n, 1]"
        )
    raise InvalidInput(
        f"the labels of {whose} run from {low} to {high}, but the model knows classes 0 to "
        f"{classes - 1}; {way_out}."
    )


def check_mean(loss: Loss, outputs: torch.Tensor, labels: torch.Tensor) -> None:
    """The loss of a batch is one number, and that of the batch and its copy is the same."""
    try:
        once = loss(outputs, labels)
        twice = loss(torch.cat([outputs, outputs]), torch.cat([labels, labels]))
    except Exception as error:  # what else it cannot be computed for is told by those who need it
        several = outputs.ndim == 2 and outputs.shape[1] > 1
        if labels.is_floating_point() and labels.ndim == 1 and several:
            raise InvalidInput(
                f"the loss cannot take labels that are floats ({first_line(error)}); give "
                f"classes as whole numbers, labels.long(), and numbers to be predicted in the "
                f"model's own shape, [n, {outputs.shape[1]}]."
            ) from error
        return
    if not isinstance(once, torch.Tensor):
        raise InvalidInput(f"the loss must return a tensor, got {shown(once)}; leave out .item().")
    if once.numel() != 1:
        raise InvalidInput(
            f"the loss of {len(labels)} records has shape {tuple(once.shape)}, but must be one "
            f"number, the mean over the batch; leave out reduction='none', or end with .mean()."
        )
    if bool((twice - 2 * once).abs() < _SUM * once.abs()):
        raise InvalidInput(
            "the loss of a batch is the sum of its records' losses, but must be their mean; leave "
            "out reduction='sum', or divide by the number of records."
        )
