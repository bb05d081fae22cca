"""The paper's models of the four mechanisms: how a parameter distorts an update."""

from __future__ import annotations

from typing import Final

from trilemma.errors import UnknownName
from trilemma.paper_framework.mechanisms.base import MechanismModel
from trilemma.paper_framework.mechanisms.compression_model import CompressionModel
from trilemma.paper_framework.mechanisms.paillier_model import PaillierModel
from trilemma.paper_framework.mechanisms.randomization_model import RandomizationModel
from trilemma.paper_framework.mechanisms.secret_sharing_model import SecretSharingModel

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
