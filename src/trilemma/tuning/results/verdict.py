"""The verdict: what to deploy, on which evidence, within which limits.

It holds no record, no reconstruction and no plain hash of data. `verdict.json` is its text; the
JSON Schema of that text is docs/verdict.schema.json, made from the classes below.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, PlainSerializer, PlainValidator, WithJsonSchema

from trilemma.beliefs.blind import BlindGuess
from trilemma.beliefs.recovery import Criterion
from trilemma.estimation.costs import Costs
from trilemma.estimation.leakage import Estimate
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.specs import parse_protection
from trilemma.tuning.certificate.certify import Certificate
from trilemma.tuning.fronts.points import Evaluated
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.documents import Document
from trilemma.tuning.surrogate.promises import Promise, SurrogateConstants

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
    "Prediction",
    "Verdict",
    "verdict_schema",
]

SCHEMA_VERSION: Final = 2
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
class Prediction:
    """What the Fisher information predicts at a parameter, without any attack.

    For attackers that converge to the truth and have no prior on the data; never a certificate.
    """

    mechanism: str
    parameter: float
    success: float
    leakage: float


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
    """Everything needed to deploy a protection, to judge it, and to reproduce the judgement.

    `curves` are estimates at a grid of strengths of each mechanism, the same units and the same
    three training seeds at every one, besides no protection, the mechanisms without a strength,
    and the strength that was found for each. They show how leakage and costs go with the strength;
    the claim rests on the candidates alone. A mechanism that is not needed beside secret sharing,
    or is not to be deployed, has no curve, nor has any on a basis without calibration.
    `predictions` stand beside those of noise. `reproduce` is the command that repeats the
    verdict where no trilemma.toml is, empty from Python.
    """

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
    curves: tuple[Evaluated, ...]
    predictions: tuple[Prediction, ...]
    seed: int
    training_seeds: tuple[int, ...]
    versions: dict[str, str]
    show_records: bool
    reproduce: str = ""
    schema_version: Literal[2] = SCHEMA_VERSION

    @property
    def choice(self) -> Candidate | None:
        """The candidate that was chosen."""
        return next((each for each in self.candidates if each.name == self.chosen), None)

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain values, the version first."""
        return _DOCUMENT.plain(self)

    def save(self, path: Path | str) -> None:
        """Write the verdict; the file is complete, or not there."""
        _DOCUMENT.write(self, path)

    @staticmethod
    def load(path: Path | str) -> Verdict:
        """The verdict in a file; `protection` is then what a federation can run."""
        return _DOCUMENT.read(path)


_DOCUMENT: Final = Document(
    Verdict,
    "verdict",
    SCHEMA_VERSION,
    remedy="take the verdict.json that trilemma tune wrote",
    upgrade=(
        "run the same trilemma tune command again with --out {folder}: what the journal there "
        "holds is not measured again"
    ),
)


def verdict_schema() -> dict[str, Any]:
    """The JSON Schema of verdict.json."""
    return _DOCUMENT.schema()
