"""Tune the protection of federated updates: privacy, utility, efficiency.

The names below are the library. They are loaded when first used, so that importing `trilemma`,
or a file of it that needs no torch, does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilemma.beliefs.belief import bernoulli_leakage, largest_success_rate, leakage
    from trilemma.bounds import Constants, certified_noise, certified_success
    from trilemma.entropy import Seeded, System
    from trilemma.errors import TrilemmaError
    from trilemma.mechanisms import law
    from trilemma.mechanisms.compression import Compression, TopK
    from trilemma.mechanisms.dp import dp_figure
    from trilemma.mechanisms.paillier import Paillier
    from trilemma.mechanisms.plain import Plain
    from trilemma.mechanisms.protection import Protection
    from trilemma.mechanisms.protocol import RoundInfo
    from trilemma.mechanisms.randomization import Randomization
    from trilemma.mechanisms.secret_sharing.bounded import BoundedMask
    from trilemma.mechanisms.secret_sharing.transport import SecretSharing
    from trilemma.mechanisms.specs import parse_protection
    from trilemma.observations import Adversary, Observation
    from trilemma.tuning.plan import Effort
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.surrogate import Solution, solve
    from trilemma.tuning.tune import tune
    from trilemma.tuning.verdict import Verdict
    from trilemma.updates import Layout, Profile

__all__ = [
    "Adversary",
    "BoundedMask",
    "Compression",
    "Constants",
    "Effort",
    "Layout",
    "Observation",
    "Paillier",
    "Plain",
    "Problem",
    "Profile",
    "Protection",
    "Randomization",
    "RoundInfo",
    "SecretSharing",
    "Seeded",
    "Solution",
    "System",
    "TopK",
    "TrilemmaError",
    "Verdict",
    "bernoulli_leakage",
    "certified_noise",
    "certified_success",
    "dp_figure",
    "largest_success_rate",
    "law",
    "leakage",
    "parse_protection",
    "solve",
    "tune",
]

_HOME: Final = {
    "Adversary": "observations",
    "BoundedMask": "mechanisms.secret_sharing.bounded",
    "Compression": "mechanisms.compression",
    "Constants": "bounds",
    "Effort": "tuning.plan",
    "Layout": "updates",
    "Observation": "observations",
    "Paillier": "mechanisms.paillier",
    "Plain": "mechanisms.plain",
    "Problem": "tuning.problem",
    "Profile": "updates",
    "Protection": "mechanisms.protection",
    "Randomization": "mechanisms.randomization",
    "RoundInfo": "mechanisms.protocol",
    "SecretSharing": "mechanisms.secret_sharing.transport",
    "Seeded": "entropy",
    "Solution": "tuning.surrogate",
    "System": "entropy",
    "TopK": "mechanisms.compression",
    "TrilemmaError": "errors",
    "Verdict": "tuning.verdict",
    "bernoulli_leakage": "beliefs.belief",
    "certified_noise": "bounds",
    "certified_success": "bounds",
    "dp_figure": "mechanisms.dp",
    "largest_success_rate": "beliefs.belief",
    "law": "mechanisms",
    "leakage": "beliefs.belief",
    "parse_protection": "mechanisms.specs",
    "solve": "tuning.surrogate",
    "tune": "tuning.tune",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trilemma' has no attribute {name!r}")
    return getattr(import_module(f"trilemma.{_HOME[name]}"), name)
