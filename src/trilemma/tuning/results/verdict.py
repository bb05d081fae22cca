"""The verdict: what to deploy, on which evidence, within which limits.

It holds no record, no reconstruction and no plain hash of data. `verdict.json` is its text; the
JSON Schema of that text is docs/verdict.schema.json, made from the classes below.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from trilemma.federation.deployment_terms import Deployment
from trilemma.federation.scoring import Metric
from trilemma.game.baseline import constant_metric
from trilemma.game.playing.claims import Claim, Participation
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.tuning.request import Knows, Request
from trilemma.tuning.results.candidate import Basis, Candidate
from trilemma.tuning.results.documents import Kept, Share, Shares
from trilemma.tuning.results.notebook_view import Shown
from trilemma.tuning.results.points import Point
from trilemma.tuning.results.success_by_noise import TradeOff

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario

__all__ = ["AttackUsed", "Beside", "Federation", "PaperLeakage", "RoundsPoint", "Verdict"]


def _protection(value: Any) -> Protection:
    if isinstance(value, Protection):
        return value
    if not isinstance(value, str):
        raise ValueError("a protection is a text")
    return parse_protection(value)


Deployed = Annotated[
    Protection,
    PlainValidator(_protection),
    PlainSerializer(lambda protection: protection.describe(), return_type=str),
    WithJsonSchema({"type": "string", "description": "what trilemma.parse_protection reads"}),
]


@dataclass(frozen=True)
class AttackUsed:
    """An attack with its effort, and how often it guesses right from unprotected single rounds."""

    name: str
    knows: Knows
    effort: str
    restarts: int
    control_units: int
    control_recovered: int


@dataclass(frozen=True)
class Beside:
    """What another adversary gets from the same protection; measured, not tuned for."""

    who: str
    statement: str
    leakage: Shares | None = None
    units: int = 0
    recovered: int = 0


@dataclass(frozen=True)
class RoundsPoint:
    """What leaks to an attacker after so many rounds of a training.

    Intervals hold together: who knows more or has seen more leaks no less. Where they cannot
    (`crossed`: the lower limit is above the upper), an assumption failed.
    """

    knows: Knows
    participation: Participation
    rounds: int
    leakage: Shares
    certified: bool = False
    crossed: bool = False


@dataclass(frozen=True)
class PaperLeakage:
    """The paper's leakage, computed from an attack's beliefs: mean over clients, and the largest.

    `games` candidate sets with their records fixed, `draws` observations of each.
    """

    attack: str
    mean: Share
    largest: Share
    games: int
    draws: int


@dataclass(frozen=True)
class Federation:
    """What was tuned; `data_hash` is keyed, and its key stays in the run folder.

    `metric` is what utility is measured by, of which more is better, and `baseline` what the best
    constant answer reaches of it on the test records (None: there is none).
    """

    scenario: str
    clients: int
    records: int
    records_per_update: int
    parameters: int
    public_records: int
    public_is_test: bool
    data_hash: str
    metric: str = ""
    baseline: float | None = None

    @classmethod
    def of(cls, scenario: Scenario, data_hash: str) -> Self:
        """Describe a scenario whose keyed hash this is."""
        return cls(
            scenario=scenario.name,
            clients=len(scenario.records),
            records=sum(map(len, scenario.records)),
            records_per_update=scenario.local_training.unit_size,
            parameters=scenario.task.layout.size,
            public_records=len(scenario.public_records),
            public_is_test=scenario.public is None,
            data_hash=data_hash,
            metric=_metric(scenario),
            baseline=constant_metric(scenario),
        )


def _metric(scenario: Scenario) -> str:
    if isinstance(scenario.metric, Metric):
        return scenario.metric.shown
    return "minus the loss" if scenario.classes is None else "accuracy"


@dataclass(frozen=True, repr=False)
class Verdict(Shown, Kept):
    """Everything needed to deploy a protection, to judge it, and to reproduce the judgement.

    `headline` says in one sentence who is held off: knowledge, participation, rounds and candidate
    set. The claim rests on the candidates alone; `curves`, `rounds` (leakage against rounds) and
    `beliefs` (the paper's leakage, at what was chosen) are estimates beside it. `trade_off` is
    what the proof, attackers and trainings give at several noise multipliers.
    `largest_success_rate` is p_max, the rate that the budget allows for the claim's N. `source`
    are the settings that make the scenario, empty where it was given as an object, and `reproduce`
    is the command that repeats the verdict where no trilemma.toml is, or the call.
    """

    file: ClassVar = "verdict.json"
    remedy: ClassVar = "take the verdict.json that trilemma tune wrote"
    upgrade: ClassVar = (
        "what it claims is not what this version claims: run trilemma tune again with --fresh "
        "--out {folder}"
    )

    headline: str
    limits: tuple[str, ...]
    protection: Deployed | None
    basis: Basis
    statement: str
    advice: str
    leakage: Shares | None
    request: Request
    claim: Claim
    largest_success_rate: Share
    attacks: tuple[AttackUsed, ...]
    deployment: Deployment
    federation: Federation
    chosen: str | None
    candidates: tuple[Candidate, ...]
    beside: tuple[Beside, ...]
    curves: tuple[Point, ...]
    rounds: tuple[RoundsPoint, ...]
    beliefs: tuple[PaperLeakage, ...]
    versions: dict[str, str]
    show_records: bool
    trade_off: TradeOff | None = None
    source: dict[str, str | int | float] = field(default_factory=dict)
    reproduce: str = ""
    schema_version: Literal[4] = 4

    @property
    def figure(self) -> TradeOff | None:
        """The trade-off where other noise multipliers than the chosen one are known."""
        found = self.trade_off
        return found if found is not None and len(found.points) > 1 else None

    @property
    def choice(self) -> Candidate | None:
        return next((item for item in self.candidates if item.name == self.chosen), None)
