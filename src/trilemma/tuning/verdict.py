"""The verdict: what to deploy, on which evidence, within which limits.

It holds no record, no reconstruction and no plain hash of data. `verdict.json` is its text; the
JSON Schema of that text is docs/verdict.schema.json, made from the classes below.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from trilemma.beliefs.blind import BlindGuess
from trilemma.beliefs.recovery import Criterion
from trilemma.errors import InvalidInput
from trilemma.estimation.costs import Costs
from trilemma.estimation.leakage import Estimate
from trilemma.learning import LocalTraining
from trilemma.mechanisms.protection import Protection
from trilemma.mechanisms.specs import parse_protection
from trilemma.observations import Adversary
from trilemma.runs import write_json
from trilemma.tuning.certificate import Certificate
from trilemma.tuning.problem import Problem
from trilemma.tuning.promises import Promise, SurrogateConstants

if TYPE_CHECKING:
    from trilemma.estimation.constants import Guess
    from trilemma.estimation.scenario import Scenario

__all__ = [
    "SCHEMA_VERSION",
    "AttackUsed",
    "Basis",
    "Beside",
    "Candidate",
    "Federation",
    "Point",
    "Verdict",
    "verdict_schema",
]

SCHEMA_VERSION: Final = 1
Basis = Literal["measured", "certified", "surrogate", "cryptographic"]


def _protection(value: Any) -> Protection:
    return value if isinstance(value, Protection) else parse_protection(value)


Deployed = Annotated[
    Protection,
    PlainValidator(_protection),
    PlainSerializer(lambda protection: protection.describe(), return_type=str),
    WithJsonSchema({"type": "string", "description": "what trilemma.parse_protection reads"}),
]


@dataclass(frozen=True)
class AttackUsed:
    """An attack with its effort, whether it binds, and what it recovers without protection."""

    name: str
    effort: str
    restarts: int
    binding: bool
    control_units: int
    control_recovered: int


@dataclass(frozen=True)
class Point:
    """Units attacked at one parameter value (None: without it); `passed` None: only explored."""

    parameter: float | None
    units: int
    recovered: int
    stage: str
    passed: bool | None


@dataclass(frozen=True)
class Beside:
    """What another adversary, or an attacker that does not bind, gets from the same protection."""

    who: str
    statement: str
    leakage: Estimate | None = None
    units: int = 0
    recovered: int = 0


@dataclass(frozen=True)
class Candidate:
    """One mechanism at the strength found for it.

    `leakage` and `worst_client` are pointwise intervals at the verdict's confidence: what is shown
    by the procedure as a whole is that the leakage is within the budget. `rank` 1 is the least
    objective; `tied` marks those whose interval meets that of the chosen one.
    """

    name: str
    basis: Basis
    feasible: bool
    deployable: bool
    statement: str
    protection: str | None = None
    symbol: str | None = None
    parameter: float | None = None
    leakage: Estimate | None = None
    worst_client: Estimate | None = None
    any_record: Estimate | None = None
    units: int = 0
    by_attack: dict[str, int] | None = None
    failed_units: int = 0
    points: tuple[Point, ...] = ()
    non_monotone: bool = False
    smallest_leakage: float | None = None
    certificate: Certificate | None = None
    costs: Costs | None = None
    objective: Estimate | None = None
    rank: int | None = None
    tied: bool = False


@dataclass(frozen=True)
class Federation:
    """What was tuned; `data_hash` is keyed, and its key stays in the run folder."""

    scenario: str
    clients: int
    records: int
    records_per_update: int
    parameters: int
    criterion: Criterion
    kappa: BlindGuess | None
    data_hash: str

    @classmethod
    def of(cls, scenario: Scenario, guess: Guess, tag: str) -> Self:
        """Describe a scenario whose keyed hash is `tag`."""
        return cls(
            scenario=scenario.name,
            clients=len(scenario.records),
            records=sum(map(len, scenario.records)),
            records_per_update=scenario.local_training.unit_size,
            parameters=scenario.task.layout.size,
            criterion=guess.criterion,
            kappa=guess.kappa,
            data_hash=tag,
        )


@dataclass(frozen=True)
class Verdict:
    """Everything needed to deploy a protection, to judge it, and to reproduce the judgement."""

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    limits: tuple[str, ...]
    protection: Deployed | None
    basis: Basis
    statement: str
    advice: str
    leakage: Estimate | None
    problem: Problem
    adversary: Adversary
    confidence: float
    largest_success_rate: float
    attacks: tuple[AttackUsed, ...]
    local_training: LocalTraining
    federation: Federation
    chosen: str | None
    candidates: tuple[Candidate, ...]
    beside: tuple[Beside, ...]
    constants: SurrogateConstants | None
    promises: tuple[Promise, ...]
    seed: int
    training_seeds: tuple[int, ...]
    versions: dict[str, str]
    schema_version: Literal[1] = SCHEMA_VERSION

    @property
    def choice(self) -> Candidate | None:
        """The candidate that was chosen."""
        return next((each for each in self.candidates if each.name == self.chosen), None)

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain values, the version first."""
        document: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return {"schema_version": document.pop("schema_version"), **document}

    def save(self, path: Path | str) -> None:
        """Write the verdict; the file is complete, or not there."""
        write_json(path, self.as_json())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The verdict in a file; `protection` is then what a federation can run."""
        try:
            document = json.loads(Path(path).read_text())
        except OSError as error:
            raise InvalidInput(
                f"cannot read the verdict {path} ({error.strerror}); run trilemma tune."
            ) from None
        except ValueError:
            raise InvalidInput(
                f"{path} is not a whole JSON file; take the verdict.json that trilemma tune wrote."
            ) from None
        version = document.get("schema_version") if isinstance(document, dict) else None
        if version != SCHEMA_VERSION:
            raise InvalidInput(
                f"{path} is no verdict of version {SCHEMA_VERSION} (schema_version is "
                f"{version!r}); take the verdict.json that trilemma tune wrote."
            )
        try:
            verdict: Self = _adapter().validate_python(document)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(
                f"{path} is not a verdict: {place or 'its content'} is wrong "
                f"({first['msg'].lower()}); take the verdict.json that trilemma tune wrote."
            ) from None
        return verdict


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Verdict)


def verdict_schema() -> dict[str, Any]:
    """The JSON Schema of verdict.json."""
    schema = _adapter().json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
