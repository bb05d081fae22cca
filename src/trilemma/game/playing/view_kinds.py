"""Views of one kind at a time: what is done with one is not decided by its neighbours.

Attacks do some things for all views of a call at once: labels are read off a layer if it was sent
whole in every one, records are known by client if somewhere clients weigh unlike. Which views
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
    if len({tuple(map(_form, vars(item).values())) for item in found}) > 1:
        # of other kinds it tells other things: only it knows how they go together
        return attack(views, restarts=restarts, seed=seed)
    order = torch.tensor([place for own in places.values() for place in own]).argsort()
    return Reconstructions(
        *(
            _in_order([getattr(item, name) for item in found], order)
            for name in Reconstructions.__dataclass_fields__
        )
    )


def _kind(view: View) -> tuple[object, ...]:
    """Whether there is noise, clients weigh alike, and all was read, or all of the last layer.

    Updates clipped to unlike norms are of unlike kinds: a call has one.
    Where each coordinate has weights of its own, clients differ anyway.
    """
    known, weights, noise = (
        getattr(view.observation, name) for name in ("known", "weights", "noise")
    )
    own = isinstance(weights, torch.Tensor)
    alike = None if own else len(set(weights or ())) <= 1
    first = noise is not None and noise.scale > 0, alike, view.observation.clip
    if known is None or bool(known.all()):
        return *first, True
    last = last_linear(view.task) or ()
    return *first, tuple(bool(known[part].all()) for part in last if part is not None)


def _form(value: Any) -> object:
    """What each view has of it: nothing, something, or numbers of some shape."""
    return value.shape[1:] if isinstance(value, torch.Tensor) else value is None


def _in_order(values: list[Any], order: torch.Tensor) -> Any:
    """What was found kind by kind, brought into the order of the views; None where it is none."""
    if values[0] is None:
        return None
    if isinstance(values[0], torch.Tensor):
        return torch.cat(values)[order.to(values[0].device)]
    flat = [item for own in values for item in own]
    return [flat[place] for place in order.tolist()]
