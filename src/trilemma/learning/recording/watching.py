"""Modes that see every tensor operation, without what torch would import for them."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

__all__ = ["Flops", "Watching"]


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """A mode that torch's compiler need not be kept out of, as nothing is compiled within it.

    To keep it out torch imports it, and sympy with it: one to three seconds of every process.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Flops(Watching):  # type: ignore[no-untyped-call]  # of torch
    """Counts floating-point operations of matrix products and convolutions."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if count := flop_registry.get(func._overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=made)
        return made
