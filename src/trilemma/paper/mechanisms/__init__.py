"""The paper's models of the four mechanisms: how a parameter distorts an update."""

from __future__ import annotations

from typing import Final

from trilemma.errors import UnknownName
from trilemma.paper.mechanisms.base import MechanismModel
from trilemma.paper.mechanisms.compression_model import CompressionModel
from trilemma.paper.mechanisms.paillier_model import PaillierModel
from trilemma.paper.mechanisms.randomization_model import RandomizationModel
from trilemma.paper.mechanisms.secret_sharing_model import SecretSharingModel

__all__ = ["MECHANISMS", "mechanism"]

MECHANISMS: Final[dict[str, MechanismModel]] = {
    model.name: model
    for model in (RandomizationModel(), PaillierModel(), SecretSharingModel(), CompressionModel())
}


def mechanism(name: str) -> MechanismModel:
    """The model of a mechanism, by name.

    >>> mechanism("compression").parameter.symbol
    'ρ'
    """
    if name not in MECHANISMS:
        raise UnknownName("mechanism", name, MECHANISMS)
    return MECHANISMS[name]
