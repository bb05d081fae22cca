"""How much work a tuning may be: a quick look, the usual, or all that can be known."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

__all__ = ["PRESETS", "Preset"]

Preset = Literal["quick", "usual", "thorough"]

PRESETS: Final[Mapping[Preset, Mapping[str, Any]]] = MappingProxyType(
    {
        "quick": {
            "knows": "candidates",
            "claim": "one-round",
            "families": ("randomization", "randomization+secret-sharing", "secret-sharing"),
            "confidence": 0.9,
            "restarts": 1,
            "seeds": 4,  # with fewer the costs cannot be told apart
            "strengths": 0,
        },
        "usual": {},
        "thorough": {
            "confidence": 0.99,
            "restarts": 5,
            "seeds": 10,
            "strengths": 10,
            "minutes": None,
        },
    }
)
"""Settings that take the place of the defaults; what is given by name stays as it is given."""
