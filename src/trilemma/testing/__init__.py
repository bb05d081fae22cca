"""Contract tests for mechanisms and attacks, ours and yours."""

from __future__ import annotations

from trilemma.testing.attack_contracts import check_attack
from trilemma.testing.mechanism_contracts import check_mechanism

__all__ = ["check_attack", "check_mechanism"]
