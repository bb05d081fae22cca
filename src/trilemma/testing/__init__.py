"""Contract tests for mechanisms and attacks, ours and yours."""

from __future__ import annotations

from trilemma.testing.attacks import check_attack
from trilemma.testing.mechanisms import check_mechanism

__all__ = ["check_attack", "check_mechanism"]
