"""The paper's half of every mechanism: how its parameter distorts an update, in pure numbers.

`LAWS` maps the name of each of the four mechanisms to its law; nothing here knows torch.
"""

from __future__ import annotations

from typing import Final

from trilemma.errors import UnknownName
from trilemma.protections.laws.base import Law
from trilemma.protections.laws.compression import CompressionLaw
from trilemma.protections.laws.paillier import PaillierLaw
from trilemma.protections.laws.randomization import RandomizationLaw
from trilemma.protections.laws.secret_sharing import SecretSharingLaw

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
