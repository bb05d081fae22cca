"""What a look at a scenario says: attacks with their speed, what is left out and why, the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from tests.commands.own_scenario import small
from torch import nn

from trilemma import LocalTraining, Scenario
from trilemma.errors import InvalidInput
from trilemma.tuning import checking
from trilemma.tuning.remaining import Kind
