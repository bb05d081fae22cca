"""Views of one kind at a time: what is done with one is not decided by its neighbours.

Attacks do some things for all views of a call at once: labels are read off a layer if it was sent
whole in every one, records are told apart by client if somewhere clients weigh unlike. Which views
share a call must change none of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from trilemma.attacks.base import Attack, Reconstructions, View, links
from trilemma.attacks.labels import last_linear

__all__ = ["find"]


def find(attack: Attack, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
    """What an attack finds in each view, in their order; it is called once for each kind."""
    kinds = [_kind(view) for view in views]
    if links(attack):  # views of one training stay together
        whole: dict[object, set[object]] = defaultdict(set)
        for view, kind in zip(views, kinds, strict=True):
            whole[view.training].add(kind)
        kinds = [tuple(sorted(map(repr, whole[view.training]))) for view in views]
    places: dict[object, list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        places[kind].append(place)
    found = [
        attack([views[place] for place in own], restarts=restarts, seed=seed)
        for own in places.values()
    ]
    if len(found) == 1:
        return found[0]
    order = torch.tensor([place for own in places.values() for place in own]).argsort()
    return Reconstructions(
        *(
            _in_order([getattr(each, name) for each in found], order)
            for name in Reconstructions.__dataclass_fields__
        )
    )


def _kind(view: View) -> tuple[object, ...]:
    """Whether clients weigh alike, and how much was read: of all, and of the last layer's parts.

    Where each coordinate has weights of its own, clients are told apart anyway.
    """
    known, weights = view.observation.known, view.observation.weights
    own = isinstance(weights, torch.Tensor)
    alike = None if own else len(set(weights or ())) <= 1
    if known is None or bool(known.all()):
        return own, alike, True
    last = last_linear(view.task) or ()
    return own, alike, tuple(bool(known[part].all()) for part in last if part is not None)


def _in_order(values: list[Any], order: torch.Tensor) -> Any:
    """What was found kind by kind, brought into the order of the views; None where it is none."""
    if any(each is None for each in values):
        return None
    if isinstance(values[0], torch.Tensor):
        return torch.cat(values)[order.to(values[0].device)]
    flat = [each for own in values for each in own]
    return [flat[place] for place in order.tolist()]
