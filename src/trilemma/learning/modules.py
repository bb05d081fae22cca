"""A user's network made fit for torch.func, and in words what that changes.

Nothing here changes what is sent but for what it says.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import pad
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from trilemma.errors import InvalidInput
from trilemma.learning.batch_norm_statistics import send_statistics
from trilemma.learning.recurrent import unroll

if TYPE_CHECKING:
    from trilemma.updates import Layout

__all__ = [
    "centred",
    "changing",
    "copied",
    "drop_nothing",
    "fitted",
    "normalises_batches",
    "read_by_layers",
    "scores",
    "settled_lazily",
    "shift_biases",
    "shifted_biases",
    "stilled",
    "tensor_name",
]

_CHANNELS: Final = 8  # of a group that replaces BatchNorm


def fitted(model: nn.Module, sent_at: float | None = None) -> tuple[nn.Module, tuple[str, ...]]:
    """A copy that runs under torch.func, and a sentence for each thing that is not as it was.

    BatchNorm in train mode keeps to the statistics of the batch at hand; where clients send the
    running ones along, with local steps of `sent_at`, those become parameters. Dropout is off.
    Hugging Face's attention and recurrent layers are computed in plain operations, which have
    second derivatives.
    """
    made = copied(model)
    unroll(made)
    huggingface: Iterator[Any] = made.modules()
    for item in huggingface:
        if hasattr(item, "set_attn_implementation"):
            item.set_attn_implementation("eager")
            item.config.use_cache = False
    remarks = _settled_norms(made, sent_at)
    if off := drop_nothing(made):
        remarks.append(
            f"Dropout ({_named(off)}) is off in what is trained and attacked here: whatever it "
            f"would hide is not counted on."
        )
    return made, tuple(remarks)


def _settled_norms(model: nn.Module, sent_at: float | None) -> list[str]:
    """Settles in place what becomes of BatchNorm's running statistics; sentences that say so."""
    norms = [(name, item) for name, item in model.named_modules() if isinstance(item, _BatchNorm)]
    live = [name for name, item in norms if item.training]
    kept = [(name, item) for name, item in norms if item.training and item.track_running_stats]
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
    remarks = []
    if live and sent_at is None:
        remarks.append(
            f"BatchNorm ({_named(live)}) works with the statistics of each batch, in training and "
            f"when the model is judged; running statistics are neither sent nor attacked here, "
            f"and a client that shares them shows more (sends_statistics=True measures that)."
        )
    elif live:
        remarks.append(
            f"BatchNorm ({_named(live)}) works with the statistics of each batch in training; "
            f"running statistics are sent as a part of the update, protected and attacked as "
            f"such, and by them the model is judged."
        )
    if len(live) < len(norms):
        frozen = [name for name, item in norms if not item.training]
        remarks.append(
            f"BatchNorm ({_named(frozen)}) is in eval mode, so its stored statistics are "
            f"constants: deploy it so, or call train() and measure again."
        )
    return remarks


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model that shares the memory of its frozen modules: a body is held once.

    A module is frozen if it has parameters and trains none of them; nothing here writes to those.
    A copy that is moved to another device has its own memory there; the model stays where it is.
    """
    shared: dict[int, Any] = {}
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        if own and not any(item.requires_grad for item in own):
            shared.update(
                (id(item), nn.Parameter(item.detach(), requires_grad=False))
                for item in own
                if type(item) is nn.Parameter  # others may hold more than their numbers
            )
    for module in model.modules():  # what is tied to a trained module's weight is its own
        if any(item.requires_grad for item in module.parameters(recurse=False)):
            for item in module.parameters(recurse=False):
                shared.pop(id(item), None)
    return copy.deepcopy(model, shared)


def scores(made: Any) -> Any:
    """What a model returns: a tensor, or the `logits` of what Hugging Face's models return."""
    return getattr(made, "logits", made)


def drop_nothing(model: nn.Module) -> list[str]:
    """Switches dropout off, in place; the names of what dropped."""
    off = [name for name, item in model.named_modules() if _drops(item)]
    for name in off:
        module = model.get_submodule(name)
        if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
            module.dropout = 0.0
        else:
            module.eval()
    return off


def changing(model: nn.Module, inputs: torch.Tensor) -> tuple[str, ...]:
    """Buffers, by name, that forward() changes."""
    used = copied(model)
    before = {name: item.clone() for name, item in used.named_buffers()}
    with torch.no_grad():
        used(inputs)
    return tuple(
        name for name, item in used.named_buffers() if not torch.equal(item, before[name])
    )


def settled_lazily(model: nn.Module, *inputs: torch.Tensor, **named: torch.Tensor) -> None:
    """Gives lazy layers their shapes, in place, by running the model on inputs once."""
    if not any(isinstance(item, UninitializedParameter) for item in model.parameters()):
        return
    trained = [(item, item.training) for item in model.modules()]
    model.eval()  # no statistics of these inputs
    with torch.no_grad():
        model(*inputs, **named)
    for module, was in trained:
        module.training = was


def stilled(model: nn.Module, inputs: torch.Tensor) -> tuple[str, ...]:
    """Puts a model whose forward() draws at random into eval mode, and says so; all but BatchNorm.

    Dropout as a function, by the `training` of the module around it, is found by no other way.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        first, second = (scores(copied(model)(inputs)) for _ in range(2))
    same = not isinstance(first, torch.Tensor) or torch.equal(first, second)
    if same:
        return ()
    for module in model.modules():
        if not isinstance(module, _BatchNorm):
            module.training = False
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        first, second = (scores(copied(model)(inputs)) for _ in range(2))
    if not torch.equal(first, second):
        raise InvalidInput(
            f"forward() of this {type(model).__name__} draws random numbers, so that no update of "
            f"it can be told from another; leave that out, or do it in train mode alone."
        )
    said = (
        "Dropout within forward() is off in what is trained and attacked here: whatever it would "
        "hide is not counted on."
    )
    return (said,)


def with_group_norm(model: nn.Module) -> nn.Module:
    """A copy with GroupNorm, of about 8 channels a group, for each BatchNorm in train mode."""
    made = copied(model)
    for name, norm in list(made.named_modules()):
        if not (isinstance(norm, _BatchNorm) and norm.training):
            continue
        channels = norm.num_features
        groups = math.gcd(channels, max(1, channels // _CHANNELS))
        group_norm = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine)
        owner, _, own = name.rpartition(".")
        setattr(made.get_submodule(owner), own, group_norm.to(next(made.parameters())))
    return made


def normalises_batches(model: nn.Module) -> bool:
    """Whether an output depends on the records beside it, by the statistics of its batch."""
    return any(isinstance(module, _BatchNorm) and module.training for module in model.modules())


def centred(model: nn.Module, means: Mapping[str, torch.Tensor]) -> nn.Module:
    """A copy whose layers, by name, are affine in x - m: W x + b = W (x - m) + b̃, b̃ = b + W m.

    Its weights are (W, b̃), of which one record's gradient is (δ (x - m)ᵀ, δ): what is clipped and
    made noisy is that. A convolution subtracts m [channels] after padding.
    """
    made = copied(model)
    for name, mean in means.items():
        layer, around = made.get_submodule(name), (0, 0, 0, 0)
        if isinstance(layer, nn.Conv2d):
            down, across = (int(item) for item in layer.padding)  # no text: `_can_be_centred`
            around, layer.padding = (across, across, down, down), (0, 0)
        layer.register_forward_pre_hook(_Subtracting(mean, around))
    shift_biases(made, means)
    return made


def shift_biases(model: nn.Module, means: Mapping[str, torch.Tensor]) -> None:
    """b ← b + W m in place, in each layer by its name."""
    named = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, bias in shifted_biases(named, means).items():
            named[name].copy_(bias)


def shifted_biases(
    weights: Mapping[str, torch.Tensor], means: Mapping[str, torch.Tensor], sign: int = 1
) -> dict[str, torch.Tensor]:
    """b + W m of each layer, or b - W m for sign -1, by the bias's name, of weights by name."""
    made = {}
    for name, mean in means.items():
        weight, bias = (weights[tensor_name(name, own)] for own in ("weight", "bias"))
        places = weight.flatten(2).sum(2) if weight.ndim > 2 else weight
        made[tensor_name(name, "bias")] = bias + sign * (places @ mean.to(weight).flatten())
    return made


def tensor_name(layer: str, name: str) -> str:
    """The name of a layer's tensor in its model, which may be that layer itself."""
    return f"{layer}.{name}" if layer else name


def read_by_layers(
    model: nn.Module, layout: Layout, weights: torch.Tensor, inputs: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What layers that can be centred read at weights [m], the mean: [e], or [channels, 1, 1]."""
    made, means = copied(model), dict[str, torch.Tensor]()

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
    """Whether it is affine with a trained bias, of one group, and with zeros around if anything.

    A bias that is frozen is shared by all copies, and stays.
    """
    if type(layer) is nn.Conv2d:
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str) or layer.groups > 1:
            return False
    elif type(layer) is not nn.Linear:
        return False
    return layer.bias is not None and layer.bias.requires_grad


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
