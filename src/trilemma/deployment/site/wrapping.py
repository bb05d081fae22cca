"""Flower's ClientApp, by its public constructor and call, under the policy of its node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

__all__ = ["FIRST_MOD", "TERMS_OF_MOD", "wrap", "wrapped"]

FIRST_MOD: Final = "trilemma_first_mod"  # of an app: the outermost mod that it was made with
TERMS_OF_MOD: Final = "trilemma_terms"  # what `protect_mod` writes on its mod


def wrap(app: Any) -> None:
    """Notes each app's first mod, and refuses messages where the policy asks for ours."""
    start, call = app.__init__, app.__call__

    @wraps(start)
    def starts(self: Any, *args: Any, **settings: Any) -> None:
        start(self, *args, **settings)
        given = settings.get("mods", args[1] if len(args) > 1 else None)
        setattr(self, FIRST_MOD, next(iter(given or ()), None))

    @wraps(call)
    def calls(self: Any, message: Any, context: Any) -> Any:
        if "trilemma-policy" in context.node_config or "TRILEMMA_POLICY" in os.environ:
            from trilemma.deployment.flower.enforcing import refusal_of  # with all of torch

            if (
                refused := refusal_of(getattr(self, FIRST_MOD, None), message, context)
            ) is not None:
                return refused
        return call(self, message, context)

    app.__init__, app.__call__ = starts, calls


@contextmanager
def wrapped(app: Any) -> Iterator[None]:
    """The same for the apps that are made inside."""
    before = app.__init__, app.__call__
    wrap(app)
    try:
        yield
    finally:
        app.__init__, app.__call__ = before
