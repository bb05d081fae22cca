"""How a model is run, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilemma.learning import Way

__all__ = ["how_it_runs"]


def how_it_runs(way: Way) -> str:
    """The way, and how much longer than a recording it takes (docs/benchmarks/ways.md)."""
    if way.kind == "recorded":
        return "Its gradients are recorded once and replayed, which is the quickest way."
    how, times = {
        "vmapped": ("through torch.func in every call", "3 to 7"),
        "looped": ("record by record", "18 to 39"),
    }[way.kind]
    return (
        f"Its gradients are computed {how}, which takes small models {times} times as long as a "
        f"recording would: {way.reason}."
    )
