"""A scenario that trains by a recipe, and on what it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.server_parts import means_of, origins_of
from trilemma.game.prepared_models import fresh_weights, redraw
from trilemma.learning.modules import centred, read_by_layers, shift_biases

if TYPE_CHECKING:
    from trilemma.federation.recipe import Judge
    from trilemma.game.scenario import Scenario
    from trilemma.records.records import Records

__all__ = ["applied", "judged_records", "own_recipe", "settled"]

_MODELS: Final = range(4)  # fresh ones, at which it is seen what layers read


def own_recipe(scenario: Scenario) -> Recipe:
    """The scenario's own way to train."""
    return Recipe(
        scenario.local_training,
        scenario.server_lr,
        scenario.server_decay,
        rounds=scenario.rounds,
    )


def applied(recipe: Recipe, scenario: Scenario) -> Scenario:
    """The scenario that trains by the recipe and is judged so.

    Its public records are those on which the server may train: none of them judges.
    """
    if recipe.needs_public and scenario.public is None:
        raise InvalidInput(
            "this recipe starts, steps or centres by public records, but there are none; give the "
            "scenario public=..., or leave warm_start, public_weight and centring out."
        )
    public = scenario.public_records
    if recipe.judge == "choosing" and scenario.public is not None:
        public = public[torch.arange(len(public))[1::2]]
    means = _centring(recipe, scenario, public)
    changes: dict[str, Any] = {
        "local_training": recipe.local_training,
        "server_lr": recipe.server_lr,
        "server_decay": recipe.server_decay,
        "test": judged_records(scenario, recipe.judge),
        "public": public,
    }
    if not means and not scenario.sends_statistics:  # these are in the model, with their own rate
        return scenario.retrained(**changes)
    return replace(
        scenario,
        model=centred(scenario.model, means),
        initialise=_Centred(scenario.initialise, means) if means else scenario.initialise,
        **changes,
    )


def settled(recipe: Recipe, scenario: Scenario) -> Recipe:
    """The same recipe, which says of each layer that is centred what its origin is."""
    means = _centring(recipe, scenario, scenario.public_records)
    return replace(recipe, centring=origins_of(means) or None)


def judged_records(scenario: Scenario, judge: Judge) -> Records:
    """Every other public record chooses; the test set reports, without those where it is both.

    Where a scenario has no public records, its test set stands for them.
    """
    if judge == "test":
        return scenario.test_records
    places = torch.arange(len(scenario.public_records))
    if len(places) < 2:
        raise InvalidInput(
            f"settings are chosen on one half of the public records, but there are {len(places)}; "
            "give the scenario more public or test records."
        )
    if judge == "choosing":
        return scenario.public_records[places[::2]]
    return (
        scenario.test_records
        if scenario.public is not None
        else scenario.public_records[places[1::2]]
    )


def _centring(recipe: Recipe, scenario: Scenario, public: Records) -> dict[str, torch.Tensor]:
    """By the name of each affine layer, what it subtracts from what it reads.

    Where that is the records themselves, which is the same whatever the weights are, their mean
    entry by entry; else one number, the mean at fresh weights.
    """
    if recipe.centring is None:
        return {}
    if isinstance(recipe.centring, tuple):
        return means_of(recipe.centring, dict(scenario.task.model.named_parameters()))
    some = public.inputs.to(scenario.device)
    if recipe.centring != "public":
        some = torch.full_like(some[:1], recipe.centring)
    task = scenario.task
    read = [
        read_by_layers(task.model, task.layout, weights, some)
        for weights in fresh_weights(scenario, _MODELS)
    ]
    if not read[0] or scenario.input_spec.discrete:
        raise InvalidInput(
            "centring is for linear layers and convolutions with a bias, of records that are "
            "numbers, and this model has none; leave it out."
        )
    means = {}
    for name, first in read[0].items():
        several = torch.stack([item[name] for item in read])
        same = bool((several == first).all())
        means[name] = first if same else several.mean().expand_as(first)
    return means


@dataclass(frozen=True, eq=False)
class _Centred:
    """Draws weights as before, then says the same in the biases of layers that are centred."""

    draw: Callable[[nn.Module], None] | None
    means: Mapping[str, torch.Tensor]

    def __call__(self, model: nn.Module) -> None:
        (self.draw or redraw)(model)
        shift_biases(model, self.means)
