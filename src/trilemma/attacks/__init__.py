"""What a curious server tries: attacks on batches of independent units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from trilemma.attacks.analytic import Analytic
from trilemma.attacks.base import Attack, Knowledge, Reconstructions, Rung, View
from trilemma.attacks.checking import check_task
from trilemma.attacks.dlg import DLG, IDLG
from trilemma.attacks.inverting_gradients import InvertingGradients
from trilemma.attacks.map_prior import MAP
from trilemma.attacks.posterior import ExactPosterior, GaussianPosterior
from trilemma.errors import UnknownName

__all__ = [
    "ATTACKS",
    "DLG",
    "IDLG",
    "MAP",
    "Analytic",
    "Attack",
    "ExactPosterior",
    "GaussianPosterior",
    "InvertingGradients",
    "Knowledge",
    "Reconstructions",
    "Rung",
    "View",
    "check_task",
    "get",
]

ATTACKS: dict[str, Callable[..., Attack]] = {
    "analytic": Analytic,
    "dlg": DLG,
    "exact-posterior": ExactPosterior,
    "gaussian-posterior": GaussianPosterior,
    "idlg": IDLG,
    "inverting-gradients": InvertingGradients,
    "map": MAP,
}


def get(name: str, **effort: Any) -> Attack:
    """The attack called `name`, with its default effort but for what is given.

    >>> get("dlg", iterations=500)
    DLG(iterations=500, masked_iterations=3000, history=60, slots=64, tolerance=1e-08, ...)
    """
    if name not in ATTACKS:
        raise UnknownName("attack", name, ATTACKS)
    settings = {item.name: item for item in fields(ATTACKS[name])}  # type: ignore[arg-type]
    for key in effort:
        if key not in settings:
            raise UnknownName(f"setting of the attack {name!r}", key, settings)
    return ATTACKS[name](**effort)
