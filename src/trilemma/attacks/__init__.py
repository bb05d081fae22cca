"""What a curious server tries: attacks on batches of independent units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from trilemma.attacks.analytic import Analytic
from trilemma.attacks.base import (
    KNOWLEDGE_LEVELS,
    Attack,
    Knowledge,
    KnowledgeLevel,
    Reconstructions,
    View,
)
from trilemma.attacks.dager import Dager
from trilemma.attacks.dlg import DLG, IDLG
from trilemma.attacks.inverting_gradients import InvertingGradients
from trilemma.attacks.linkage import Linkage
from trilemma.attacks.map_prior import MAP
from trilemma.attacks.posterior import ExactPosterior, GaussianPosterior
from trilemma.attacks.tableak import TabLeak
from trilemma.attacks.tokens import Tokens
from trilemma.errors import InvalidInput, UnknownName
from trilemma.naming import load_object

__all__ = [
    "ATTACKS",
    "DLG",
    "IDLG",
    "MAP",
    "Analytic",
    "Attack",
    "Dager",
    "ExactPosterior",
    "GaussianPosterior",
    "InvertingGradients",
    "Knowledge",
    "KnowledgeLevel",
    "Linkage",
    "Reconstructions",
    "TabLeak",
    "Tokens",
    "View",
    "get",
]

ATTACKS: dict[str, Callable[..., Attack]] = {
    "analytic": Analytic,
    "dager": Dager,
    "dlg": DLG,
    "exact-posterior": ExactPosterior,
    "gaussian-posterior": GaussianPosterior,
    "idlg": IDLG,
    "inverting-gradients": InvertingGradients,
    "linkage": Linkage,
    "map": MAP,
    "tableak": TabLeak,
    "tokens": Tokens,
}


def get(name: str, **effort: Any) -> Attack:
    """The attack called `name`, with its default effort but for what is given.

    An attack of yours is named module:object, a class or an instance; check it with
    `trilemma.testing.check_attack`.

    >>> get("dlg", iterations=500)
    DLG(iterations=500, masked_iterations=3000, history=60, slots=64, tolerance=1e-08, ...)
    """
    if ":" in name:
        return _own(name, effort)
    if name not in ATTACKS:
        raise UnknownName("attack", name, [*ATTACKS, "module:object"])
    settings = {item.name: item for item in fields(ATTACKS[name])}  # type: ignore[arg-type]
    for key in effort:
        if key not in settings:
            raise UnknownName(f"setting of the attack {name!r}", key, settings)
    return ATTACKS[name](**effort)


def _own(name: str, effort: dict[str, Any]) -> Attack:
    found = load_object("attack", name)
    try:
        made = found(**effort) if isinstance(found, type) else found
    except TypeError as error:
        raise InvalidInput(
            f"attack {name!r} with effort {effort or 'none'} failed ({error})."
        ) from error
    if not isinstance(made, Attack) or made.knows not in KNOWLEDGE_LEVELS:
        raise InvalidInput(
            f"attack {name!r} must be an attack with a name and a knowledge of "
            f"{', '.join(KNOWLEDGE_LEVELS)}, got "
            f"{type(made).__name__}."
        )
    return made
