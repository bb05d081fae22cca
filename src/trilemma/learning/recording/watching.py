"""Modes that see every tensor operation, without what torch would import for them."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final, Self

from torch._compile import _disable_dynamo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

__all__ = ["Flops", "Watching"]

_COMPILER: Final = "torch._dynamo"


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """A mode that keeps torch's compiler out of itself once somebody has read it, not before.

    Torch would read it for that, and sympy with it: one to three seconds of every process. A model
    that was compiled is run within, and must not be compiled anew for each operation that is seen.
    """

    _kept_out: ClassVar[bool] = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __enter__(self) -> Self:
        own = type(self)
        if _COMPILER in sys.modules and not own._kept_out:
            own._kept_out = True
            kept: Any = _disable_dynamo(own.__torch_dispatch__, recursive=True)
            own.__torch_dispatch__ = kept  # type: ignore[method-assign]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self


class Flops(Watching):  # type: ignore[no-untyped-call]  # of torch
    """Counts floating-point operations of matrix products and convolutions."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if count := flop_registry.get(func._overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=made)
        return made
