"""A user's network made fit for torch.func, and in words what that changes.

Nothing here changes what is sent but for what it says.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import pad
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from trilemma.errors import InvalidInput
from trilemma.learning.batch_norm_statistics import send_statistics

if TYPE_CHECKING:
    from trilemma.updates import Layout

__all__ = [
    "centred",
    "drop_nothing",
    "fitted",
    "normalises_batches",
    "read_by_layers",
    "scores",
    "shift_biases",
]


def fitted(model: nn.Module, sent_at: float | None = None) -> tuple[nn.Module, tuple[str, ...]]:
    """A copy that runs under torch.func, and a sentence for each thing that is not as it was.

    BatchNorm in train mode keeps to the statistics of the batch at hand; where clients send the
    running ones along, with local steps of `sent_at`, those become parameters. Dropout is off.
    Hugging Face's attention is computed in plain operations, which have second derivatives.
    """
    made, remarks = copy.deepcopy(model), []
    huggingface: Iterator[Any] = made.modules()
    for each in huggingface:
        if hasattr(each, "set_attn_implementation"):
            each.set_attn_implementation("eager")
            each.config.use_cache = False
    norms = [(name, each) for name, each in made.named_modules() if isinstance(each, _BatchNorm)]
    live = [name for name, each in norms if each.training]
    kept = [(name, each) for name, each in norms if each.training and each.track_running_stats]
    if sent_at is not None and not kept:
        raise InvalidInput(
            "sends_statistics is for a model with BatchNorm in train mode that keeps running "
            "statistics, which this one does not have; leave it out."
        )
    for name, norm in kept:
        if sent_at is not None:
            send_statistics(norm, name, sent_at)
            continue
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = norm.num_batches_tracked = None
    if live and sent_at is None:
        remarks.append(
            f"BatchNorm ({_named(live)}) works with the statistics of each batch, in training and "
            f"when the model is judged; running statistics are neither sent nor attacked here, "
            f"and whoever shares them shows more (sends_statistics=True measures that)."
        )
    elif live:
        remarks.append(
            f"BatchNorm ({_named(live)}) works with the statistics of each batch in training; "
            f"running statistics are sent as a part of the update, protected and attacked as "
            f"such, and by them the model is judged."
        )
    if len(live) < len(norms):
        frozen = [name for name, each in norms if not each.training]
        remarks.append(
            f"BatchNorm ({_named(frozen)}) is in eval mode, so its stored statistics are "
            f"constants: deploy it so, or call train() and measure again."
        )
    if off := drop_nothing(made):
        remarks.append(
            f"Dropout ({_named(off)}) is off in what is trained and attacked here: whatever it "
            f"would hide is not counted on."
        )
    return made, tuple(remarks)


def scores(made: Any) -> Any:
    """What a model returns: a tensor, or the `logits` of what Hugging Face's models return."""
    return getattr(made, "logits", made)


def drop_nothing(model: nn.Module) -> list[str]:
    """Switches dropout off, in place; the names of what dropped."""
    off = [name for name, each in model.named_modules() if _drops(each)]
    for name in off:
        module = model.get_submodule(name)
        if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
            module.dropout = 0.0
        else:
            module.eval()
    return off


def normalises_batches(model: nn.Module) -> bool:
    """Whether an output depends on the records beside it, by the statistics of its batch."""
    return any(isinstance(each, _BatchNorm) and each.training for each in model.modules())


def centred(model: nn.Module, means: Mapping[str, torch.Tensor]) -> nn.Module:
    """A copy whose layers, by name, are affine in x - m: W x + b = W (x - m) + b̃, b̃ = b + W m.

    Its weights are (W, b̃), of which one record's gradient is (δ (x - m)ᵀ, δ): what is clipped and
    made noisy is that. A convolution subtracts m [channels] after padding.
    """
    made = copy.deepcopy(model)
    for name, mean in means.items():
        layer, around = made.get_submodule(name), (0, 0, 0, 0)
        if isinstance(layer, nn.Conv2d):
            down, across = (int(each) for each in layer.padding)  # no text: `_can_be_centred`
            around, layer.padding = (across, across, down, down), (0, 0)
        layer.register_forward_pre_hook(_Subtracting(mean, around))
    shift_biases(made, means)
    return made


def shift_biases(model: nn.Module, means: Mapping[str, torch.Tensor]) -> None:
    """b ← b + W m in place, in each layer by its name."""
    with torch.no_grad():
        for name, mean in means.items():
            layer: Any = model.get_submodule(name)
            places = layer.weight.flatten(2).sum(2) if layer.weight.ndim > 2 else layer.weight
            layer.bias += places @ mean.to(layer.weight).flatten()


def read_by_layers(
    model: nn.Module, layout: Layout, weights: torch.Tensor, inputs: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What layers that can be centred read at weights [m], the mean: [e], or [channels, 1, 1]."""
    made, means = copy.deepcopy(model), dict[str, torch.Tensor]()

    def note(name: str, layer: nn.Module, given: tuple[torch.Tensor]) -> None:
        axes = (0, 2, 3) if isinstance(layer, nn.Conv2d) else tuple(range(given[0].ndim - 1))
        mean = given[0].mean(axes)
        means[name] = mean[:, None, None] if isinstance(layer, nn.Conv2d) else mean

    for name, layer in made.named_modules():
        if _can_be_centred(layer):
            layer.register_forward_pre_hook(partial(note, name))
    with torch.no_grad():
        functional_call(made, layout.unflatten(weights), (inputs,))
    return means


def _can_be_centred(layer: nn.Module) -> bool:
    """Whether it is affine with a bias, of one group, and surrounded by zeros if by anything."""
    if type(layer) is nn.Conv2d:
        plain = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return plain and layer.groups == 1 and layer.bias is not None
    return type(layer) is nn.Linear and layer.bias is not None


@dataclass(frozen=True, eq=False)
class _Subtracting:
    """Before a layer: what it reads, padded, less a mean."""

    mean: torch.Tensor
    around: tuple[int, int, int, int]

    def __call__(self, layer: nn.Module, given: tuple[torch.Tensor]) -> torch.Tensor:
        (read,) = given
        wide = pad(read, self.around) if any(self.around) else read
        return wide - self.mean.to(wide)


def _drops(module: nn.Module) -> bool:
    """Whether it drops entries; attention and recurrent layers do so by a number of their own."""
    own = isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0
    return module.training and (own or (isinstance(module, _DropoutNd) and module.p > 0))


def _named(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
