"""How a client protects its update: four mechanisms, one file each.

`LAWS` maps a mechanism's name to its law, the paper's half of it.
"""

from __future__ import annotations

from typing import Final

from trilemma.errors import UnknownName
from trilemma.mechanisms.base import Law
from trilemma.mechanisms.compression import CompressionLaw
from trilemma.mechanisms.paillier import PaillierLaw
from trilemma.mechanisms.randomization import RandomizationLaw
from trilemma.mechanisms.secret_sharing import SecretSharingLaw

__all__ = ["LAWS", "law"]

LAWS: Final[dict[str, Law]] = {
    each.name: each
    for each in (RandomizationLaw(), PaillierLaw(), SecretSharingLaw(), CompressionLaw())
}


def law(name: str) -> Law:
    """The law of a mechanism, by name.

    >>> law("compression").parameter.symbol
    'ρ'
    """
    if name not in LAWS:
        raise UnknownName("mechanism", name, LAWS)
    return LAWS[name]
