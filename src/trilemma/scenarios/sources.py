"""What may be measured: a scenario, a function that makes one, or the name of either."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.naming import load_object
from trilemma.scenarios import load_scenario
from trilemma.scenarios.scenario_calls import CHANGEABLE, changed, made_with, meant

if TYPE_CHECKING:
    from trilemma.game.scenario import Source
    from trilemma.records.records import Records

__all__ = ["name_of", "source_of", "with_public"]


def source_of(
    given: Scenario | Callable[..., Scenario] | str, options: Mapping[str, Any] | None = None
) -> Source:
    """A scenario as it is; a function or a name as what makes the scenario, in each worker anew.

    The `options` go to the function.

    >>> source_of("digits")().name
    'digits-mlp'
    """
    options = options or {}
    if isinstance(given, str):
        return partial(load_scenario, given, **options)
    if isinstance(given, Scenario):
        if fixed := [name for name in options if name not in CHANGEABLE]:
            raise InvalidInput(
                f"a Scenario is made already, so that {', '.join(fixed)} cannot change it; give "
                f"the function that makes it, or its name."
            )
        return changed(given, options)
    if callable(given) and not isinstance(given, nn.Module | type):
        return partial(made_with, given, getattr(given, "__name__", repr(given)), options)
    raise InvalidInput(
        f"what is tuned must be a Scenario, a function that makes one or its name "
        f"(module:function), got {type(given).__name__}; {meant(given)}."
    )


def name_of(given: Any) -> str | None:
    """The name by which a command finds a function, module:function; None where there is none.

    >>> from trilemma.scenarios.digits import digits
    >>> name_of(digits), name_of(lambda: digits())
    ('trilemma.scenarios.digits:digits', None)
    """
    module, name = (getattr(given, part, "") for part in ("__module__", "__qualname__"))
    here = sys.modules.get(str(module))
    if not callable(given) or here is None or getattr(here, str(name), None) is not given:
        return None
    if module == "__main__":  # a command imports it by the name of its file
        module = Path(getattr(here, "__file__", None) or "").stem
    return f"{module}:{name}" if module else None


def with_public(source: Source, public: Records | str) -> Scenario:
    """The scenario with other public records, or those of this name (module:object)."""
    scenario = source if isinstance(source, Scenario) else source()
    if isinstance(public, str):
        records = load_object("public records", public)
        public = records() if callable(records) else records
    return replace(scenario, public=public)
