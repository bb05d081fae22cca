"""`trilemma attack`: all attacks of a rung, or what one recovers, with and without protection."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from pydantic import BeforeValidator, Field

from trilemma import api
from trilemma.commands.measuring import (
    Prepared,
    SuccessOption,
    interruptible,
    prepare,
    resumable,
    show_or_dump,
)
        _attack_verdict(verdict, public, 48 if units is None else units, flags)
