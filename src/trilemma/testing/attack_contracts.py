"""Contract tests for attacks, ours and yours.

A check raises AssertionError with one sentence that says what does not hold.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.base import KNOWLEDGE_LEVELS, Knowledge, View
from trilemma.entropy import Seeded
from trilemma.observations import Observation
from trilemma.testing.controls import Control

if TYPE_CHECKING:
    from trilemma.attacks.base import Attack, KnowledgeLevel, Reconstructions
    from trilemma.testing.controls import Kind

__all__ = ["check_attack"]


def check_attack(
    attack: Attack,
    *,
    records: Kind = "numbers",
    units: int = 12,
    recovered: float = 0.75,
    restarts: int = 2,
    seed: int = 0,
) -> None:
    """Checks what a measurement relies on, on unprotected updates of single records.

    `records` are those that the attack is for: plain "numbers" or a "table" before a sigmoid
    network of 16 inputs, or "text" before an embedding. The views hold the knowledge of every
    knowledge: a candidate set of all units' records, as many public ones, and the rest.

    - Reconstructions have the shapes of the contract and lie in the input range; a belief over
      the candidate set is shown by its likeliest candidate.
    - What a view holds beyond the attack's own knowledge changes nothing.
    - The same views and seed give the same bits, and the views are left unchanged.
    - Coordinates that are not known change nothing, whatever they hold.
    - At least the share `recovered` of the easy control comes back (to 20 dB, 80 % of a table's
      columns, or all words of a text).
    - A diverged unit is reported as failed and leaves the others of its call alone.

    >>> from trilemma.attacks import get
    >>> check_attack(get("analytic"))
    """
    _require(
        attack.knows in KNOWLEDGE_LEVELS,
        f"an attack's knowledge must be one of {', '.join(KNOWLEDGE_LEVELS)}",
    )
    control = Control.of(records, units, seed)
    views = control.views
    kept = [view.observation.update.clone() for view in views]
    found = attack(views, restarts=restarts, seed=seed)
    _check_shapes(found, views)
    _check_belief(found, views)
    _require(
        all(torch.equal(a, v.observation.update) for a, v in zip(kept, views, strict=True)),
        "an attack must not change what it observes",
    )
    _require(
        _same(found, attack(views, restarts=restarts, seed=seed)),
        "the same views and seed must give the same reconstructions, bit for bit",
    )
    _require(
        _same(
            found,
            attack([_stripped(v, attack.knows) for v in views], restarts=restarts, seed=seed),
        ),
        f"an attack of that knowledge {attack.knows!r} must not read what only higher kinds of "
        "knowledge know",
    )
    share = control.recovered(found)
    _require(
        share >= recovered,
        f"an unprotected control must be recovered for {recovered:.0%} of the units, "
        f"got {share:.0%}: this attack would report its weakness as privacy",
    )
    _check_unknown(attack, views, restarts, seed)
    broken = dataclasses.replace(
        views[0], observation=Observation(torch.full_like(kept[0], torch.nan))
    )
    mixed = attack([broken, *views[1:]], restarts=restarts, seed=seed)
    _require(bool(mixed.failed[0]), "a unit whose update is NaN must be reported as failed")
    _require(
        not bool(mixed.failed[1:].any()), "a diverged unit must leave the others of its call alone"
    )


def _check_shapes(found: Reconstructions, views: list[View]) -> None:
    units, spec = len(views), views[0].input_spec
    shape = (units, 1, *spec.shape)
    _require(
        tuple(found.inputs.shape) == shape,
        f"inputs must have shape [N, S, *shape] = {shape}, got {tuple(found.inputs.shape)}",
    )
    _require(
        bool(((found.inputs >= spec.low) & (found.inputs <= spec.high)).all()),
        "reconstructed inputs must be finite and lie in the input range",
    )
    _require(
        found.labels is None or tuple(found.labels.shape) == (units, 1),
        "labels must be None or have shape [N, S]",
    )
    for name in ("loss", "failed"):
        _require(tuple(getattr(found, name).shape) == (units,), f"{name} must have shape [N]")
    _require(found.failed.dtype == torch.bool, "failed must be boolean")


def _check_belief(found: Reconstructions, views: list[View]) -> None:
    belief = found.log_probability
    if belief is None:
        return
    for unit, view in enumerate(views):
        candidate_set = view.knowledge.candidate_set
        if candidate_set is None:
            raise TypeError("the control's views hold a candidate set")
        _require(
            tuple(belief.shape) == (len(views), len(candidate_set)),
            f"log_probability must have shape [N, C] = ({len(views)}, {len(candidate_set)}), "
            f"got {tuple(belief.shape)}",
        )
        likeliest = candidate_set.inputs[int(belief[unit].argmax())]
        _require(
            torch.allclose(found.inputs[unit, 0].to(likeliest), likeliest),
            "beside a belief, inputs must be its likeliest candidate",
        )


def _stripped(view: View, knows: KnowledgeLevel) -> View:
    """The view with only what an attacker who knows `knows` has."""
    whole, rank = view.knowledge, KNOWLEDGE_LEVELS.index(knows)
    return dataclasses.replace(
        view,
        knowledge=Knowledge(
            public=whole.public if rank >= 1 else None,
            candidate_set=whole.candidate_set if rank >= 2 else None,
            population=whole.population if rank >= 2 else None,
            rest=whole.rest if rank >= 3 else None,
            slot=whole.slot if rank >= 3 else 0,
        ),
    )


def _check_unknown(attack: Attack, views: list[View], restarts: int, seed: int) -> None:
    generator = Seeded(seed).torch_generator("mask")
    known = torch.rand(views[0].task.layout.size, generator=generator) < 0.8
    outcomes = []
    for garbage in (0.0, 1e6):
        hidden = [
            dataclasses.replace(
                view,
                observation=Observation(
                    torch.where(known, view.observation.update, garbage), known
                ),
            )
            for view in views
        ]
        outcomes.append(attack(hidden, restarts=restarts, seed=seed))
    _require(_same(*outcomes), "coordinates that are not known must change nothing")


def _same(one: Reconstructions, other: Reconstructions) -> bool:
    for a, b in zip(_parts(one), _parts(other), strict=True):
        if (a is None) != (b is None) or (a is not None and b is not None and not a.equal(b)):
            return False
    return True


def _parts(found: Reconstructions) -> list[torch.Tensor | None]:
    """All that was found; of what was read, how the reconstructions themselves fit it."""
    names = (field.name for field in dataclasses.fields(found) if field.name != "readings")
    read = found.readings or [None] * len(found.inputs)
    fits = (
        None if item is None else item.log_likelihood(inputs)
        for item, inputs in zip(read, found.inputs, strict=True)
    )
    return [*(getattr(found, name) for name in names), *fits]


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(f"{sentence}.")
