"""torch's compiler stays unread until somebody compiles.

`torch.func.grad` asks `torch._dynamo` to keep compiled autograd out of its way, and reads it for
that, sympy and torch.distributed with it: one to three seconds at the start of every process.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from typing import Any

import torch

__all__ = ["leave_unread"]


class _KeptOut:
    """Of torch's compiled autograd: nothing to keep out while the compiler is not there."""

    _disable = nullcontext


class _Unread:
    """Stands for `torch._dynamo` as its package's attribute; any other use of it reads it.

    An import statement finds no module and reads it as well, which puts it in this one's place.
    """

    compiled_autograd = _KeptOut

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch._dynamo"), name)


def leave_unread() -> None:
    """Have `torch._dynamo` read when it is first needed; nothing changes where it is there."""
    if "torch._dynamo" not in sys.modules:
        vars(torch)["_dynamo"] = _Unread()
