"""Ready to run: scenarios by name, or the user's own as module:function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from trilemma.errors import InvalidInput, UnknownName
from trilemma.game.scenario import Scenario
from trilemma.naming import load_object
from trilemma.scenarios.digits import digits
from trilemma.scenarios.images import images
from trilemma.scenarios.medical_tables import breast_cancer, diabetes
from trilemma.scenarios.scenario_calls import made_with, meant
from trilemma.scenarios.text import text

__all__ = ["SCENARIOS", "load_scenario"]

SCENARIOS: Final[Mapping[str, Callable[..., Scenario]]] = MappingProxyType(
    {
        "breast-cancer": breast_cancer,
        "cifar10": partial(images, "cifar10"),
        "diabetes": diabetes,
        "digits": partial(digits, "mlp"),
        "digits-lenet": partial(digits, "lenet"),
        "digits-mlp": partial(digits, "mlp"),
        "digits-public": partial(digits, "mlp", public=149),
        "fashion-mnist": partial(images, "fashion-mnist"),
        "mnist": partial(images, "mnist"),
        "text": text,
    }
)
"""Ready-made scenarios; each takes clients, batch, alpha (Dirichlet) and seed."""


def load_scenario(spec: str, **options: Any) -> Scenario:
    """The scenario of this name, or what the function `module:function` returns for `options`.

    A scenario itself may be named, too.

    >>> load_scenario("digits-mlp", clients=2, batch=1).input_spec
    InputSpec(shape=(1, 8, 8), low=0.0, high=1.0)
    """
    make = _own(spec) if ":" in spec else SCENARIOS.get(spec)
    if make is None:
        _require_no_file(spec)
        raise UnknownName("scenario", spec, [*SCENARIOS, "module:function"])
    return made_with(make, spec, options)


def _own(spec: str) -> Callable[..., Any]:
    found = load_object("scenario", spec)
    if isinstance(found, Scenario):
        return lambda: found
    if not callable(found):
        raise InvalidInput(
            f"scenario {spec!r} is no function, but {type(found).__name__}; {meant(found)}."
        )
    return found  # type: ignore[no-any-return]


def _require_no_file(spec: str) -> None:
    """People name the file that they wrote; what is needed is a function in it."""
    module = spec.removesuffix(".py")
    if module != spec or any(path.stem == spec for path in Path().glob("*.py")):
        raise InvalidInput(
            f"scenario {spec!r} names a file, not what makes a scenario; name the function in it, "
            f"{Path(module).name}:make_scenario, say."
        )
