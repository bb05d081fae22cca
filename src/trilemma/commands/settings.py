"""The settings of a tuning: from trilemma.toml and from flags, which win."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from trilemma.errors import InvalidInput, UnknownName
from trilemma.tuning.problem import (
    DEFAULT_BUDGET,
    DEFAULT_EFFICIENCY_WEIGHT,
    DEFAULT_UTILITY_WEIGHT,
)

__all__ = ["DEFAULT_FILE", "Settings", "command_line", "read_settings"]

DEFAULT_FILE = Path("trilemma.toml")


def _split(value: Any) -> Any:
    """A flag's text is split at its commas."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _split_several(value: Any) -> Any:
    return _split(value) if isinstance(value, str) and "," in value else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Weights = Annotated[float | tuple[float, ...], BeforeValidator(_split_several)]


class Settings(BaseModel):
    """Everything that a tuning can be told; the defaults are those of the command line."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    scenario: str = "digits"
    data: str | None = None
    clients: int | None = None
    batch: int | None = None
    alpha: float | None = None
    device: str | None = None
    budget: float = DEFAULT_BUDGET
    confidence: float = 0.95
    utility_weight: Weights = DEFAULT_UTILITY_WEIGHT
    efficiency_weight: Weights = DEFAULT_EFFICIENCY_WEIGHT
    max_utility_loss: float | None = None
    max_cost: float | None = None
    bandwidth: float = 100e6
    mechanisms: Names | None = None
    attacks: Names | None = None
    adversary: Literal["server", "client"] = "server"
    basis: Literal["measured", "certified", "surrogate", "all"] = "measured"
    success: str | None = None
    restarts: int = 3
    rounds: int = 150
    seeds: int = 5
    certified_rounds: int = 1
    kappa: float | None = None
    clip: float | Literal["utility"] | None = None
    population: int | None = None
    strengths: int = 6
    seed: int = 0

    def scenario_options(self) -> dict[str, Any]:
        """What goes to the function that makes the scenario."""
        options = {
            "folder": self.data,
            "clients": self.clients,
            "batch": self.batch,
            "alpha": self.alpha,
            "device": self.device,
        }
        return {name: value for name, value in options.items() if value is not None}


def read_settings(path: Path | None, flags: Mapping[str, Any]) -> Settings:
    """The file's settings, overridden by the flags that were given (those that are not None).

    Flags that are no settings, such as the number of workers, are left alone.
    """
    chosen = path
    if path is None and DEFAULT_FILE.exists():
        chosen = DEFAULT_FILE
    found: dict[str, Any] = {} if chosen is None else _read(chosen)
    known = Settings.model_fields
    given = {name: flags[name] for name in known if flags.get(name) is not None}
    where = "the settings" if chosen is None else str(chosen)
    for name in found:
        if name not in known:
            raise UnknownName(f"setting in {where}", name, known)
    try:
        return Settings(**{**found, **given})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        source = "the flag" if name in given else f"the setting in {where}"
        raise InvalidInput(
            f"{name} ({source}) is {first['input']!r}: {first['msg'].lower()}."
        ) from None


def command_line(command: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The command that gives these values again; those that are the defaults are left out.

    >>> command_line("tune", {"budget": 0.2, "max_cost": None}, {"budget": 0.3, "max_cost": None})
    'trilemma tune --budget 0.2'
    """
    words = ["trilemma", command]
    for name, value in values.items():
        if value != defaults[name]:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words += [f"--{name.replace('_', '-')}", text]
    return shlex.join(words)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidInput(f"cannot read {path} ({error.strerror}); check its name.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML ({error}); mend that line.") from None
