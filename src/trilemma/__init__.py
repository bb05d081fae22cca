"""Tune the protection of federated updates: privacy, utility, efficiency.

The names below are the library. They are loaded when first used, so that importing `trilemma`,
or a file of it that needs no torch, does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilemma.accounting.guarantee import prove
    from trilemma.api import (
        attack,
        attack_verdict,
        audit,
        audit_canaries,
        check,
        deploy,
        estimate,
        evidence,
        paper,
        pareto,
        recover,
        tune,
        verify,
    )
    from trilemma.beliefs.belief import bernoulli_leakage, largest_success_rate, leakage
    from trilemma.entropy import Seeded, System
    from trilemma.errors import TrilemmaError
    from trilemma.federation.scoring import Metric
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining
    from trilemma.observations import Adversary, Observation
    from trilemma.paper_framework.mechanisms import mechanism
    from trilemma.paper_framework.profile import Profile
    from trilemma.paper_framework.solving import Solution, solve
    from trilemma.paper_framework.surrogate_bounds import Constants
    from trilemma.protection.protection import Protection
    from trilemma.protection.round_info import RoundInfo
    from trilemma.protection.specs import parse_protection
    from trilemma.protection.transforms.bounded import BoundedMask
    from trilemma.protection.transforms.compression import Compression
    from trilemma.protection.transforms.randomization import Randomization
    from trilemma.protection.transforms.top_k import TopK
    from trilemma.protection.transports.paillier_transport import Paillier
    from trilemma.protection.transports.plain import Plain
    from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
    from trilemma.records.tables import Table
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.updates import Layout

__version__ = "0.2.0"

__all__ = [
    "Adversary",
    "BoundedMask",
    "Compression",
    "Constants",
    "Layout",
    "LocalTraining",
    "Metric",
    "Observation",
    "Paillier",
    "Plain",
    "Problem",
    "Profile",
    "Protection",
    "Randomization",
    "Request",
    "RoundInfo",
    "Scenario",
    "SecretSharing",
    "Seeded",
    "Solution",
    "System",
    "Table",
    "TopK",
    "TrilemmaError",
    "Verdict",
    "attack",
    "attack_verdict",
    "audit",
    "audit_canaries",
    "bernoulli_leakage",
    "check",
    "deploy",
    "estimate",
    "evidence",
    "largest_success_rate",
    "leakage",
    "mechanism",
    "paper",
    "pareto",
    "parse_protection",
    "prove",
    "recover",
    "solve",
    "tune",
    "verify",
]

_HOME: Final = {
    "Adversary": "observations",
    "BoundedMask": "protection.transforms.bounded",
    "Compression": "protection.transforms.compression",
    "Constants": "paper_framework.surrogate_bounds",
    "Layout": "updates",
    "LocalTraining": "learning",
    "Metric": "federation.scoring",
    "Observation": "observations",
    "Paillier": "protection.transports.paillier_transport",
    "Plain": "protection.transports.plain",
    "Problem": "tuning.problem",
    "Profile": "paper_framework.profile",
    "Protection": "protection.protection",
    "Randomization": "protection.transforms.randomization",
    "Request": "tuning.request",
    "RoundInfo": "protection.round_info",
    "Scenario": "game.scenario",
    "SecretSharing": "protection.transports.secret_sharing.aggregation_transport",
    "Seeded": "entropy",
    "Solution": "paper_framework.solving",
    "System": "entropy",
    "Table": "records.tables",
    "TopK": "protection.transforms.top_k",
    "TrilemmaError": "errors",
    "Verdict": "tuning.results.verdict",
    "attack": "api",
    "attack_verdict": "api",
    "audit": "api",
    "audit_canaries": "api",
    "bernoulli_leakage": "beliefs.belief",
    "check": "api",
    "deploy": "api",
    "estimate": "api",
    "evidence": "api",
    "largest_success_rate": "beliefs.belief",
    "leakage": "beliefs.belief",
    "mechanism": "paper_framework.mechanisms",
    "paper": "api",
    "pareto": "api",
    "parse_protection": "protection.specs",
    "prove": "accounting.guarantee",
    "recover": "api",
    "solve": "paper_framework.solving",
    "tune": "api",
    "verify": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trilemma' has no attribute {name!r}")
    return getattr(import_module(f"trilemma.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
