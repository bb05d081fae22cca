"""Imported by each Python that has this folder in PYTHONPATH: the node's policy binds Flower apps.

An app's own mod keeps to the node's policy; an app without one would not. So `ClientApp` here
answers no message of an app whose first mod is not `protect_mod`, before anything of it runs. Only
its public constructor and call are wrapped. An app is code that runs as this node, so this stops
what was forgotten, left out or weakened, not what was written to get around it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class _Watching(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Wraps ClientApp once its module is imported, so that other programs pay nothing."""

    def __init__(self) -> None:
        self.loader: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "flwr.clientapp.client_app":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        from trilemma.deployment.site.wrapping import wrap

        wrap(module.ClientApp)


def _run_the_next() -> None:
    """Another sitecustomize that this one stands in front of."""
    here = Path(__file__).parent
    others = [path for path in sys.path if Path(path or ".").resolve() != here.resolve()]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _Watching())
_run_the_next()
