"""What may be tuned: a scenario, a function that makes one, or the name of either."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

from trilemma.errors import InvalidInput
from trilemma.estimation.scenario import Scenario
from trilemma.scenarios import load_scenario
from trilemma.scenarios.calling import called, meant

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Source

__all__ = ["source_of"]


def source_of(given: Scenario | Callable[[], Scenario] | str) -> Source:
    """A scenario as it is; a function or a name as what makes the scenario, in each worker anew.

    >>> source_of("digits")().name
    'digits-mlp'
    """
    if isinstance(given, Scenario):
        return given
    if isinstance(given, str):
        return partial(load_scenario, given)
    if callable(given) and not isinstance(given, nn.Module | type):
        return partial(called, given, getattr(given, "__name__", repr(given)), {})
    raise InvalidInput(
        f"what is tuned must be a Scenario, a function that makes one or its name "
        f"(module:function), got {type(given).__name__}; {meant(given)}."
    )
