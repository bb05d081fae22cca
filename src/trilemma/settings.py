"""The settings of a measurement: which federation, what is asked of it, and how it runs.

The models are what flags, trilemma.toml and Python's keywords are checked by; the typed
dictionaries name the same keywords for type checkers.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict

from pydantic import BaseModel, BeforeValidator, Field

from trilemma.tuning.presets import Preset
from trilemma.tuning.request import Knows, Rate, Request, Settings, knowledge_of

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.observations import Adversary

__all__ = [
    "AuditSettings", "Audited", "Effort", "Federated", "FederatedSettings", "RequestSettings",
    "Searched", "command_line",
    "own_flags", "python_line", "run_folder",
]  # fmt: skip

_LONGEST: Final = 80  # characters of a scenario in a folder's name, which the system bounds


class Federated(Settings):
    """Which federation: a scenario, and what goes to the function that makes it."""

    scenario: str = Field(
        default="digits", description="A ready-made scenario, or module:function."
    )
    data: str | None = Field(default=None, description="Folder of the image files.")
    clients: int | None = Field(default=None, description="K, the number of clients.")
    cohort: int | None = Field(default=None, description="Clients of a round [all].")
    batch: int | None = Field(default=None, description="S, records of one update.")
    alpha: float | None = Field(
        default=None,
        description="Split by a Dirichlet distribution with this alpha; default even.",
    )
    device: str | None = Field(default=None, description="cpu or cuda.")

    def given(self) -> dict[str, Any]:
        """What was given besides the scenario's name."""
        return self.model_dump(exclude={"scenario"}, exclude_none=True)

    def options(self) -> dict[str, Any]:
        """What goes to the function that makes the scenario."""
        return {"folder" if name == "data" else name: v for name, v in self.given().items()}

    def source(self) -> Callable[[], Scenario]:
        """What makes the scenario, in each worker anew."""
        from trilemma.scenarios import load_scenario  # imports torch, which takes seconds

        return partial(load_scenario, self.scenario, **self.options())


class FederatedSettings(TypedDict, total=False):
    """`Federated` as keywords, besides the scenario."""

    data: str | None
    clients: int | None
    cohort: int | None
    batch: int | None
    alpha: float | None
    device: str | None


class RequestSettings(TypedDict, total=False):
    """`Request` as keywords."""

    budget: float
    at_most: float | str | None
    preset: Preset
    knows: Knows
    claim: Literal["training", "one-round"]
    rounds: int | None
    candidates: int | None
    participation: Literal["secret", "known"] | None
    families: Sequence[str] | str | None
    attacks: Sequence[str] | str | None
    adversary: Adversary | Literal["server", "client"]
    server: Literal["curious", "malicious"]
    basis: Literal["proved", "measured"]
    confidence: float
    utility_weight: float | Sequence[float]
    efficiency_weight: float | Sequence[float]
    max_utility_loss: float | None
    max_cost: float | None
    bandwidth: float
    threshold: int | None
    helpers: int | None
    person: int
    restarts: int
    steps: int
    recipe: Literal["search", "keep"]
    clip: float | None
    server_step: float | None
    momentum: float | None
    warm_start: int | None
    public_weight: float | None
    centring: Literal["public", "none"] | float | None
    seeds: int
    strengths: int
    seed: int
    minutes: float | None


class TuneSettings(FederatedSettings, RequestSettings, total=False):
    """All keywords of a tuning."""


class Effort(Settings):
    """How hard an attack tries where nothing is tuned."""

    restarts: int = Field(default=3, description="An attack keeps the best of so many starts.")
    seed: int = Field(default=0, description="Same seed, same numbers.")


class Audited(Settings):
    """What an audit is asked: the budget, whose attacks, and how much work."""

    budget: float = Field(0.3, description="Largest tolerated leakage, between 0 and 1.")
    at_most: Rate | None = Field(
        None, description='Or the largest tolerated rate of right guesses, as "1 in 6".'
    )
    knows: Annotated[Knows, BeforeValidator(knowledge_of)] = Field(
        "candidates", description="Who attacks: what the budget is about."
    )
    rounds: int | None = Field(
        None, description="How long the federation trains (default: the scenario's)."
    )
    units: int = Field(48, description="Games of each attack.")
    restarts: int = Field(1, description="An attack keeps the best of so many starts.")
    seeds: int = Field(3, description="Paired trainings that measure what is lost.")
    confidence: float = Field(0.95, description="Of all limits of the attacks together.")
    seed: int = Field(0, description="Same seed, same numbers.")

    def given(self) -> dict[str, Any]:
        """What was given, besides the defaults."""
        return self.model_dump(exclude_defaults=True)

    def request(self) -> Request:
        """The same as a request of a tuning."""
        return Request(**self.model_dump(exclude={"units"}, exclude_none=True))


class AuditSettings(FederatedSettings, total=False):
    """`Audited` as keywords, beside those that say which federation."""

    budget: float
    at_most: float | str | None
    knows: Knows
    rounds: int | None
    units: int
    restarts: int
    seeds: int
    confidence: float
    seed: int


class Searched(Settings):
    """How a front is searched."""

    evaluations: int = Field(
        default=32, description="Points to measure in all; a larger number goes on later."
    )
    units: int = Field(default=48, description="Games to play at each point.")
    sampler: Literal["grid", "motpe", "nsga2"] = Field(
        default="grid", description="What picks the next point."
    )


def own_flags(field: Any) -> dict[str, str]:
    """Choices of a field that are flags of their own, such as --quick, and their help."""
    return (field.json_schema_extra or {}).get("flags", {})  # type: ignore[no-any-return]


def _changed(value: BaseModel) -> Iterator[tuple[str, Any, bool]]:
    """The fields that are not the defaults, and whether their choices are flags of their own."""
    fields = type(value).model_fields
    chosen = {name: getattr(value, name) for name in fields if own_flags(fields[name])}
    usual = type(value)(**chosen)  # a preset has defaults of its own
    for name, field in fields.items():
        own = name in chosen
        if getattr(value, name) != (field.default if own else getattr(usual, name)):
            yield name, getattr(value, name), own


def command_line(command: str, *values: BaseModel) -> str:
    """The command that gives these values again; those that are the defaults are left out.

    >>> command_line("tune", Federated(clients=5))
    'trilemma tune --clients 5'
    """
    words = ["trilemma", command]
    for settings in values:
        for name, value, own in _changed(settings):
            flag = name.replace("_", "-")
            if own:
                words.append(f"--{value}")
            else:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{flag}", text]
    return shlex.join(words)


def python_line(command: str, *values: BaseModel) -> str:
    """The same for a scenario that only Python can make.

    >>> python_line("attack", Effort(restarts=1))
    'trilemma.attack(scenario, restarts=1)'
    """
    words = [
        f"{name}={getattr(value, 'value', value)!r}"
        for settings in values
        for name, value, _ in _changed(settings)
    ]
    return f"trilemma.{command}({', '.join(['scenario', *words])})"


def run_folder(command: str, federated: Federated, decides: Mapping[str, Any]) -> Path:
    """Named after the settings: the same command resumes, another one starts its own run."""
    whole = {"command": command, **federated.model_dump(mode="json"), **decides}
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:8]
    name = federated.scenario.replace(":", "-").replace("/", "-")[:_LONGEST]
    return Path("runs") / f"{command}-{name}-{digest}"
