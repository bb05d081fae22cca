"""What an audit says, and audit.json, its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trilemma.attacks import KnowledgeLevel
from trilemma.game.estimates import Estimate
from trilemma.game.playing.claims import Claim
from trilemma.tuning.audit.setting_guarantees import Guaranteed
from trilemma.tuning.request import Knows
from trilemma.tuning.results.documents import Kept, Share, Shares

__all__ = ["Accuracy", "Attempt", "Audit", "Best", "Known", "Nearest"]


@dataclass(frozen=True)
class Attempt:
    """How often one attack guessed the right candidate over whole trainings.

    The interval of `success` holds for all attacks of the audit together.
    """

    attack: str
    units: int
    recovered: int
    success: Shares


@dataclass(frozen=True)
class Known:
    """The attacks of who knows so much, the most successful first; none where none applies.

    `granted` says that the budget is about attackers who know so much.
    """

    knows: KnowledgeLevel
    granted: bool
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class Accuracy:
    """The metric without and with the setting, over paired trainings, and what is lost.

    `lost` is None where no training ends, for the `reason`.
    """

    metric: str
    unprotected: float | None
    protected: float | None
    lost: Estimate | None
    trainings: int
    reason: str = ""


@dataclass(frozen=True)
class Nearest:
    """The setting of the same kind that keeps the budget, `paste` in the framework's own words."""

    setting: str
    paste: str
    basis: Literal["proved", "measured"]
    success: Share
    accuracy: Accuracy


@dataclass(frozen=True)
class Best:
    """Proved noise inside secure aggregation; `command` tunes it, and writes what is deployed."""

    protection: str
    noise_multiplier: float
    epsilon: float
    delta: float
    success: Share
    accuracy: Accuracy
    command: str


@dataclass(frozen=True)
class Audit(Kept):
    """What a setting buys in a federation, over `claim.rounds` rounds.

    The budget is a `budget` of leakage, which allows `largest_success_rate` among the claim's
    candidates; it is kept (`keeps`) by proof against anyone, or by attacks of who knows at most
    what `knows` says, each at its upper limit. `sent` is what the server reads, `trained` what
    reaches the model. Where there is no `nearest` or `best`, the reason stands beside it.
    """

    file: ClassVar = "audit.json"
    remedy: ClassVar = "take the audit.json that trilemma audit wrote"

    setting: str
    source: str
    sent: str
    trained: str
    scenario: str
    claim: Claim
    knows: Knows
    budget: Share
    largest_success_rate: Share
    confidence: Share
    keeps: bool
    basis: Literal["proved", "measured", "none"]
    known: tuple[Known, ...]
    guaranteed: tuple[Guaranteed, ...]
    accuracy: Accuracy
    nearest: Nearest | None
    no_nearest: str
    best: Best | None
    no_best: str
    paste: str
    remarks: tuple[str, ...]
    seed: int
    versions: dict[str, str]
    reproduce: str = ""
    schema_version: Literal[1] = 1

    @property
    def proof(self) -> Guaranteed | None:
        """The tightest that holds against the server."""
        own = [item for item in self.guaranteed if item.against == "server"]
        return min(own, key=lambda each: each.leakage, default=None)
