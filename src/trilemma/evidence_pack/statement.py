"""The statement of a pack: what is claimed, each claim marked proved, tested or not covered.

`statement.json` is its text; the JSON Schema of that text is docs/statement.schema.json, made
from the classes below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trilemma.evidence_pack.manifest import Signer
from trilemma.federation.deployment_terms import Deployment
from trilemma.game.estimates import Estimate
from trilemma.game.playing.claims import Participation
from trilemma.tuning.request import Knows
from trilemma.tuning.results.candidate import Basis
from trilemma.tuning.results.documents import Kept, Share, Shares

__all__ = [
    "Accuracy", "Again", "Claimed", "Data", "Knowledge", "Played", "Privacy", "Rounds",
    "Statement", "Status", "SuccessRate", "ThreatModel", "Unit", "WorstClient",
]  # fmt: skip

Status = Literal["proved", "tested", "not covered"]


@dataclass(frozen=True)
class Claimed:
    """A sentence and what it rests on: a proof, games or trainings, or nothing."""

    status: Status
    sentence: str


@dataclass(frozen=True)
class ThreatModel(Claimed):
    """Who attacks.

    What it `reads` of an update: single messages, the sum of a round, or nothing. With
    `chooses_models` the server may send any model; it keeps to the protocol that makes the sums.
    `helpers` clients may share what they know.
    """

    adversary: Literal["server", "client"]
    reads: Literal["messages", "sum", "nothing"]
    chooses_models: bool
    helpers: int


@dataclass(frozen=True)
class Unit(Claimed):
    """What is hidden: a record, so many records of one person, or a client with all it holds."""

    level: Literal["record", "client"]
    records_of_person: int


@dataclass(frozen=True)
class Rounds(Claimed):
    """The rounds that the attacker sees, and with which probability one holds the record."""

    rounds: int
    sampling_rate: Share
    participation: Participation


@dataclass(frozen=True)
class Knowledge(Claimed):
    """What the attacker knows besides the model, the protocol and the messages."""

    knows: Knows


@dataclass(frozen=True)
class SuccessRate(Claimed):
    """How often one guess among the candidates is right.

    `at_most` is a bound, by the proof or by the tests, and `by_candidates` the proof's for other
    candidate sets. `estimate` is an interval from `right` of `games` fresh games, and `allowed`
    the rate that was asked for.
    """

    candidates: int
    blind_guess: Share
    allowed: Share
    at_most: Share | None = None
    by_candidates: dict[int, Share] | None = None
    estimate: Shares | None = None
    right: int = 0
    games: int = 0
    confidence: Share | None = None


@dataclass(frozen=True)
class WorstClient(Claimed):
    """The client whose records are exposed most: a bound of the success rate, or a leakage."""

    at_most: Share | None = None
    leakage: Shares | None = None
    client: int | None = None


@dataclass(frozen=True)
class Privacy(Claimed):
    """Differential privacy: (ε, δ), and the trade-off function of f-DP.

    `trade_off` has pairs (α, β): whoever accuses absent records at a rate of α misses present
    ones at a rate of at least β, given that the record is used; (ε, δ) is over the draw of the
    batches, whether it is used or not. Neighbours differ in one record
    (one client, at that level), which counts as zero where it is absent. `remainder` of every
    rate is what fixed point leaves unproved; β has it already.
    """

    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: Share | None = None
    trade_off: tuple[tuple[Share, Share], ...] = ()
    remainder: float = 0.0


@dataclass(frozen=True)
class Accuracy(Claimed):
    """What is kept of the metric; accuracies of trainings without noise in whole points.

    `lost` is of paired trainings; `best_unprotected` had the freedoms of a protected one.
    """

    metric: str
    unprotected: float | None = None
    protected: float | None = None
    lost: Estimate | None = None
    best_unprotected: float | None = None


@dataclass(frozen=True)
class Played:
    """An attack, or all of who knows so much, in games: against what, and how many were won."""

    attacker: str
    against: str
    games: int
    right: int


@dataclass(frozen=True)
class Data:
    """Whose records: counts, and HMAC-SHA256 of them all under a key that stays in the run folder.

    Whoever holds that folder and the data confirms it: there the command in `reproduce` goes on
    with the same data and code alone.
    """

    scenario: str
    clients: int
    records: int
    records_per_update: int
    keyed_hash: str


@dataclass(frozen=True)
class Again:
    """When to evaluate again: at any of these events, and by a date (None: by events alone)."""

    events: tuple[str, ...]
    by: str | None


@dataclass(frozen=True)
class Statement(Kept):
    """What a pack of evidence claims, and what it does not.

    `code` holds versions of what computed the numbers, and a hash of trilemma's own files;
    `deployment` is the setting that the claims hold for. `limits` and `not_measured` are not
    covered.
    """

    version_key: ClassVar = "statement_version"
    file: ClassVar = "statement.json"
    remedy: ClassVar = "take the statement.json that trilemma evidence wrote"

    answer: str
    protection: str | None
    basis: Basis
    threat_model: ThreatModel
    unit_of_privacy: Unit
    rounds_and_sampling: Rounds
    knowledge_granted: Knowledge
    success_rate: SuccessRate
    worst_client: WorstClient
    differential_privacy: Privacy
    released_statistics: Claimed
    accuracy: Accuracy
    games: tuple[Played, ...]
    limits: tuple[Claimed, ...]
    not_measured: tuple[Claimed, ...]
    deployment: Deployment
    data: Data
    code: dict[str, str]
    verdict_sha256: str
    reproduce: str
    date: str
    evaluate_again: Again
    signed_by: Signer | None
    statement_version: Literal[1] = 1
