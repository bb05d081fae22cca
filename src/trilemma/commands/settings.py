"""The settings of a command: from trilemma.toml and from flags, which win."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, Field, ValidationError

from trilemma.errors import InvalidInput, UnknownName
from trilemma.settings import Federated, Searched, own_flags
from trilemma.tuning.request import Request, require_one_budget, told

__all__ = [
    "DEFAULT_FILE", "Running", "SettingsArgument", "TrustOption", "from_flags", "read_settings",
    "with_flags",
]  # fmt: skip
