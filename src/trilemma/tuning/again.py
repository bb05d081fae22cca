"""A user's first doubt: attack what a verdict chose once more, with fresh games on every rung."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
