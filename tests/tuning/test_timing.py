"""Speeds are measured in a process of their own, which is ended when it takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import pytest
from tests.commands.own_scenario import small

from trilemma.estimation.bench import Bench
from trilemma.estimation.jobs import AttackJob, Job
from trilemma.scenarios import load_scenario
from trilemma.tuning import timing
