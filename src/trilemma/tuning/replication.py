"""A user's first doubt: attack what a verdict chose once more, with fresh games."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from scipy.stats import binom

from trilemma.attacks import get
from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.beliefs.envelopes import envelopes
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.execution.pool import executor
from trilemma.execution.scheduler import Scheduler
from trilemma.game.estimates import Estimate, success_rate
from trilemma.game.gpu_sharing import patient, views_together
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.suite import leading, suite_of
from trilemma.game.recipe_scenarios import applied
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import parts_of, require_own, require_scenario
from trilemma.observations import Adversary
from trilemma.quantities import counted
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.proof.attacks_on_proof import recipe_of
from trilemma.tuning.time_left import Kind, Range, Remaining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.attacks import KnowledgeLevel
    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.scenario import Source
    from trilemma.protection.protection import Protection
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["Attacked", "Known", "Replication", "replicate"]

_CHUNK: Final = 16


@dataclass(frozen=True)
class Attacked:
    """How one attack fared against what the verdict chose.

    `claimed` says that the verdict's claim covers its knowledge. `p_value` is the probability of
    so many right guesses or more if the rate were the p_max of the claim: small where the verdict
    is contradicted. `after` are the right guesses after each of a training's `checkpoints`.
    """

    knows: KnowledgeLevel
    attack: str
    claimed: bool
    units: int
    recovered: int
    success: Estimate
    p_value: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Known:
    """Limits of the success rate of who knows so much; where they are `crossed`, one is wrong.

    `claimed` says that the verdict's claim covers this threat model.
    """

    knows: KnowledgeLevel
    claimed: bool
    low: float
    high: float
    crossed: bool

    def answer(self, allowed: float) -> Literal["holds", "fails", "undecided"]:
        """Whether these games alone show a rate of at most `allowed`, a higher one, or neither."""
        if self.crossed or self.low <= allowed < self.high:
            return "undecided"
        return "holds" if self.high <= allowed else "fails"


@dataclass(frozen=True)
class Replication:
    """A verdict that was attacked once more with the games of a seed."""

    verdict: Verdict
    seed: int
    attacks: tuple[Attacked, ...]

    @property
    def by_knowledge(self) -> tuple[Known, ...]:
        """The success rate of each kind of knowledge, from the least up; limits hold all at once.

        By the attack of it that won most; an attacker who knows more wins at least as often.
        """
        knowledge_levels = [
            knows
            for knows in KNOWLEDGE_LEVELS
            if any(attack.knows == knows for attack in self.attacks)
        ]
        best = [
            max(
                (attack for attack in self.attacks if attack.knows == knows),
                key=lambda a: a.recovered,
            )
            for knows in knowledge_levels
        ]
        # The largest of several attacks' limits: every attack takes its share of the error.
        share = len(knowledge_levels) / max(1, len(self.attacks))
        lower, upper, crossed = envelopes(
            [[item.recovered] for item in best],
            [[item.units] for item in best],
            confidence=1 - (1 - self.verdict.request.confidence) * share,
        )
        rows = zip(best, lower[:, 0], upper[:, 0], crossed[:, 0], strict=True)
        return tuple(
            Known(item.knows, item.claimed, float(low), float(high), bool(x))
            for item, low, high, x in rows
        )

    def as_json(self) -> dict[str, Any]:
        """The attacks as plain values, with what the verdict allows them."""
        return {
            "headline": self.verdict.headline,
            "largest_success_rate": self.verdict.largest_success_rate,
            "seed": self.seed,
            "attacks": [asdict(attacked) for attacked in self.attacks],
            "by_knowledge": [
                asdict(known) | {"answer": known.answer(self.verdict.largest_success_rate)}
                for known in self.by_knowledge
            ],
        }


def replicate(
    source: Source,
    verdict: Verdict,
    *,
    units: int,
    seed: int,
    restarts: int | None = None,
    knowledge_levels: Sequence[KnowledgeLevel] = KNOWLEDGE_LEVELS,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
) -> Replication:
    """Fresh games under the verdict's protection, by every attack of every knowledge asked for.

    Where the claim is that participation is secret, by the one attack that can be made then.
    """
    protection = _attackable(verdict)
    counted("units (games to play)", units)
    Seeded(seed)
    scenario = source if isinstance(source, Scenario) else source()
    if run is not None:
        require_scenario(run, scenario)
        require_own(run, parts_of(protection))
    if verdict.claim.participation == "secret":
        if "rest" not in knowledge_levels:
            raise InvalidInput(
                "the verdict claims that no attacker knows which rounds held a record, which only "
                "who knows the rest can do without; attack it with the knowledge 'rest'."
            )
        knowledge_levels = ("rest",)
    recipe = None if verdict.choice is None else recipe_of(verdict.choice)
    there = scenario if recipe is None else patient(partial(applied, recipe))(scenario)
    wanted = {
        name: _attacked(verdict, protection, name, units)
        for knows in knowledge_levels
        if leading(there, knows, 1)
        for name in suite_of(there, knows).attacks
        if get(name).knows in knowledge_levels
    }
    if ticker is not None:
        games, rounds = Range(units, units), verdict.claim.rounds
        work = {name: {Kind("games", (name,), rounds): games} for name in wanted}
        ticker.expect(Remaining(work, workers))
    job_runner = JobRunner(
        *(source, verdict.claim, restarts or verdict.request.restarts),
        *(verdict.request.steps, seed),
        together=views_together(scenario),
        threshold=verdict.deployment.threshold,
    )
    with executor(job_runner, workers=workers, ray=ray, device=scenario.device) as pool:
        found = Scheduler(pool, decode, run=run, watcher=ticker).run_all(wanted)
    return Replication(verdict, seed, tuple(found[name] for name in wanted))


def _attackable(verdict: Verdict) -> Protection:
    """What the verdict chose, if an attacker reads anything of it."""
    protection = verdict.protection
    if protection is None:
        raise InvalidInput(
            f"the verdict on {verdict.federation.scenario} chose no protection, so there is "
            f"nothing to attack; take one that did."
        )
    server = verdict.request.adversary is Adversary.SERVER
    if server and protection.transport.server_reads == "nothing":
        raise InvalidInput(
            f"the server reads nothing under {protection.describe()}, which rests on its "
            f"key; attack the verdict of a run with --adversary client."
        )
    return protection


def _attacked(
    verdict: Verdict, protection: Protection, attack: str, units: int
) -> Procedure[Attacked]:
    """Games of one attack as the verdict claims them, of a stream of their own."""
    asked, claim, choice = verdict.request, verdict.claim, verdict.choice
    proved = choice is not None and choice.certificate is not None
    claimed = "rest" if proved or asked.knows == "anyone" else asked.knows
    job = AttackJob(
        *("again", protection.describe(), (attack,), asked.adversary, claim.rounds, 0, units),
        recipe=None if choice is None else recipe_of(choice),
        participation=claim.participation,
    )
    seen = yield from played(job, _CHUNK)
    won, knows = int(seen.correct[attack].sum()), get(attack).knows
    return Attacked(
        knows=knows,
        attack=attack,
        claimed=KNOWLEDGE_LEVELS.index(knows) <= KNOWLEDGE_LEVELS.index(claimed),
        units=units,
        recovered=won,
        success=success_rate(won, units, asked.confidence),
        p_value=float(binom.sf(won - 1, units, verdict.largest_success_rate)),
        after=seen.after[attack],
    )
