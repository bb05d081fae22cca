"""Algorithm 2 (Prepare Model): the models w_1 .. w_M at which clients are attacked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import traced
from trilemma.learning.forward_memory import RECORDED_AT_MOST, held_at_most, held_by_record
from trilemma.learning.modules import copied
from trilemma.learning.precision import LARGE, drawn_on

if TYPE_CHECKING:
    from torch import nn

    from trilemma.game.scenario import Scenario

__all__ = ["fresh_weights", "prepare_models", "redraw"]

_BATCH: Final = 32
_AT_ONCE: Final = 256  # models of a GPU: more take as long each, and several times the memory


def prepare_models(
    scenario: Scenario, models: Sequence[int], *, steps: int = 20, seed: int = 0
) -> torch.Tensor:
    """Weights [M, m] of the models with these numbers: fresh ones after R = `steps` SGD steps.

    w^{r+1} = w^r - η ∇L(w^r; S_r), r = 0 .. R-1, S_r a random mini-batch of the pooled clients'
    records (Algorithm prepare_model; the paper's loop does R + 1 steps and returns w^R, departure
    E15). All M models take their steps together. A model depends on its number and the seed only.
    """
    if steps < 0:
        raise InvalidInput(f"steps (R, SGD steps of a prepared model) must be >= 0, got {steps}.")
    weights = fresh_weights(scenario, models, seed=seed)
    pool = scenario.pooled_there()
    size = min(_BATCH, len(pool))
    draws = [Seeded(seed).generator("steps", model) for model in models]
    for _ in range(steps):
        rows = torch.stack(
            [torch.from_numpy(draw.choice(len(pool), size, replace=False)) for draw in draws]
        )
        batch = pool[rows.to(weights.device)]
        gradients = _gradients(scenario, weights, batch.inputs, batch.labels)
        weights = weights - scenario.local_training.lr * gradients
    if not torch.isfinite(weights).all():
        raise InvalidInput(
            f"a model diverged within {steps} SGD steps at rate {scenario.local_training.lr}; "
            f"lower the learning rate."
        )
    return weights.detach()


def _gradients(
    scenario: Scenario, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Gradients [M, m] at weights [M, m]: all together, or of large models one after the other.

    Convolutions with weights of their own for each of M inputs take much longer than M of them.
    """
    way = scenario.task.way
    step = way.grad(scenario.task.mean_loss)
    held = held_by_record(scenario.task, weights[0], inputs[0, 0], labels[0, 0])
    # What a GPU does is recorded, and held whole meanwhile.
    most = RECORDED_AT_MOST if weights.is_cuda else held_at_most(weights)
    room = most // (held * inputs.shape[1])
    if scenario.task.layout.size <= LARGE and room > 1:
        together = way.vmap(step, randomness="different")
        at_once = min(room, _AT_ONCE) if weights.is_cuda else room
        parts = zip(
            *(torch.split(value, at_once) for value in (weights, inputs, labels)), strict=True
        )
        if not weights.is_cuda:
            return torch.cat([together(*part) for part in parts])
        return torch.cat(
            [traced(("steps",), scenario.task, together, part)(*part) for part in parts]
        )
    models = list(zip(weights, inputs, labels, strict=True))
    alone = traced(("a step",), scenario.task, step, models[0]) if room > 1 else step
    return torch.stack([alone(*model) for model in models])


def fresh_weights(scenario: Scenario, models: Sequence[int], *, seed: int = 0) -> torch.Tensor:
    """Random initial weights [M, m] of the models with these numbers.

    They are drawn as `drawn_on` says.
    """
    device = drawn_on(scenario.device, scenario.task.layout.size)
    shares = scenario.initialise is None and not _resets_frozen(scenario.task.model)
    model = (copied if shares else copy.deepcopy)(scenario.task.model)
    rows, owners = [], _owners(model, scenario.task.layout.names)
    if scenario.initialise is None:
        _require_reset(model)
    if shares:
        for _, owner, _ in owners:  # a frozen body beside them stays where it is
            owner.to(device)
    else:
        model.to(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for number in models:
            _seed(Seeded(seed).integer("weights", number), device)
            with torch.no_grad():
                (scenario.initialise or redraw)(model)
            named = {name: getattr(owner, own).detach() for name, owner, own in owners}
            if scenario.sends_statistics:
                _require_variances(named)
            rows.append(scenario.task.layout.flatten(named).clone())
    return torch.stack(rows).to(scenario.device)


def _owners(model: nn.Module, names: Sequence[str]) -> list[tuple[str, nn.Module, str]]:
    """Parameters by name with the module that holds each, to be read there for each model."""
    parts = [(name, *name.rpartition(".")[::2]) for name in names]
    return [(name, model.get_submodule(path), own) for name, path, own in parts]


def _seed(seed: int, device: torch.device) -> None:
    """Seeds torch's own generators; where all is drawn here those of a GPU need not hear of it."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def redraw(model: nn.Module) -> None:
    """Draws the weights anew by every module's own `reset_parameters`."""
    for _, reset in _resets(model):
        reset()
    adapters: Iterator[Any] = model.modules()  # of PEFT; after their layers, to change nothing yet
    for module in adapters:
        if hasattr(module, "reset_lora_parameters"):
            for name in module.r:
                module.reset_lora_parameters(name, True)


def _resets(model: nn.Module) -> Iterator[tuple[nn.Module, Callable[[], object]]]:
    """Modules with what draws their weights anew, but those that are frozen: a body stays."""
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        if own and not any(item.requires_grad for item in own):
            continue
        for name in ("reset_parameters", "_reset_parameters"):
            reset = getattr(module, name, None)
            if callable(reset):
                yield module, reset


def _resets_frozen(model: nn.Module) -> bool:
    """Whether some module's reset may draw frozen tensors below it as well."""
    below = (item for module, _ in _resets(model) for item in module.parameters())
    return not all(item.requires_grad for item in below)


def _require_variances(named: Mapping[str, torch.Tensor]) -> None:
    for name, value in named.items():
        if name.endswith("running_var") and not bool((value > 0).all()):
            raise InvalidInput(
                f"initialise(model) leaves {name!r} at {float(value.min()):.3g}, but a running "
                f"variance is positive; let it redraw no parameter named running_mean or "
                f"running_var."
            )


def _require_reset(model: nn.Module) -> None:
    """Every trainable tensor must be redrawn, or start from one and the same number everywhere.

    What was drawn when the model was made would be another in each process, and the same in all
    "fresh" models of one.
    """
    for path, module in model.named_modules():
        if hasattr(module, "reset_parameters") or hasattr(module, "_reset_parameters"):
            continue
        for name, tensor in module.named_parameters(recurse=False):
            if tensor.requires_grad and bool((tensor != tensor.flatten()[0]).any()):
                raise InvalidInput(
                    f"the tensor {'.'.join(filter(None, (path, name)))!r} has no "
                    f"reset_parameters() that redraws it; give {type(module).__name__} such a "
                    f"method (def reset_parameters(self): nn.init.normal_(self.{name}, std=0.02), "
                    f"say), or the scenario an initialise(model) function."
                )
