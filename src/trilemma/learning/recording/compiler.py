"""torch's compiler stays unread until somebody compiles.

`torch.func.grad` asks `torch._dynamo` to keep compiled autograd out of its way, and reads it for
that, sympy and torch.distributed with it: one to three seconds at the start of every process.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, Final

import torch

__all__ = ["leave_unread"]

_COMPILER: Final = "torch._dynamo"
_AUTOGRAD: Final = "torch._dynamo.compiled_autograd"


class _Unread(ModuleType):
    """Stands for a module until it is used; `there` is what it has before.

    An import statement finds no module and reads it, which puts it in this one's place.
    """

    def __init__(self, name: str, **there: object) -> None:
        super().__init__(name)
        vars(self).update(there)

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(importlib.import_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(importlib.import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__))


def _kept_out() -> AbstractContextManager[object]:
    """Of torch's compiled autograd: nothing to keep out while the compiler is not there."""
    if _AUTOGRAD in sys.modules:
        kept: AbstractContextManager[object] = sys.modules[_AUTOGRAD]._disable()
        return kept
    return nullcontext()


def leave_unread() -> None:
    """Have `torch._dynamo` read when it is first needed; nothing changes where it is there."""
    if _COMPILER not in sys.modules:
        autograd = _Unread(_AUTOGRAD, _disable=_kept_out)
        vars(torch)["_dynamo"] = _Unread(_COMPILER, compiled_autograd=autograd)
