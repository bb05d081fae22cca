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
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.surrogate import Solution, solve
    from trilemma.updates import Layout, Profile

__all__ = [
    "Constants",
    "Layout",
    "Problem",
    "Profile",
    "Seeded",
    "Solution",
    "System",
    "TrilemmaError",
    "bernoulli_leakage",
    "certified_noise",
    "certified_success",
    "largest_success_rate",
    "law",
    "leakage",
    "solve",
]

_HOME: Final = {
    "Constants": "bounds",
    "Layout": "updates",
    "Problem": "tuning.problem",
    "Profile": "updates",
    "Seeded": "entropy",
    "Solution": "tuning.surrogate",
    "System": "entropy",
    "TrilemmaError": "errors",
    "bernoulli_leakage": "beliefs.belief",
    "certified_noise": "bounds",
    "certified_success": "bounds",
    "largest_success_rate": "beliefs.belief",
    "law": "mechanisms",
    "leakage": "beliefs.belief",
    "solve": "tuning.surrogate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trilemma' has no attribute {name!r}")
    return getattr(import_module(f"trilemma.{_HOME[name]}"), name)
