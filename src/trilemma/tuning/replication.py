"""A user's first doubt: attack what a verdict chose once more, with fresh games on every rung."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from scipy.stats import binom

from trilemma.attacks import get
from trilemma.attacks.base import RUNGS
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.execution.pool import executor
from trilemma.execution.scheduler import Scheduler
from trilemma.game.estimates import Estimate, success_rate
from trilemma.game.gpu_sharing import views_together
from trilemma.game.job_results import decode
from trilemma.game.job_runner import Bench
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.suite import suite_of
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import parts_of, require_own, require_scenario
from trilemma.observations import Adversary
from trilemma.quantities import counted
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.proof.attacks_on_proof import recipe_of
from trilemma.tuning.time_left import Kind, Range, Remaining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.attacks import Rung
    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.scenario import Source
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["Attacked", "Replication", "attack_again"]

_CHUNK: Final = 16


@dataclass(frozen=True)
class Attacked:
    """How one attack fared against what the verdict chose.

    `claimed` says that the verdict's claim covers its rung. `p_value` is the probability of so
    many right picks or more if the rate were the p_max of the claim: small where the verdict is
    contradicted. `after` are the right picks after each of a training's `checkpoints`.
    """

    rung: Rung
    attack: str
    claimed: bool
    units: int
    recovered: int
    success: Estimate
    p_value: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Replication:
    """A verdict that was attacked once more with the games of a seed."""

    verdict: Verdict
    seed: int
    attacks: tuple[Attacked, ...]

    def as_json(self) -> dict[str, Any]:
        """The attacks as plain values, with what the verdict allows them."""
        return {
            "headline": self.verdict.headline,
            "largest_success_rate": self.verdict.largest_success_rate,
            "seed": self.seed,
            "attacks": [asdict(attacked) for attacked in self.attacks],
        }


def attack_again(
    source: Source,
    verdict: Verdict,
    *,
    units: int,
    seed: int,
    restarts: int | None = None,
    rungs: Sequence[Rung] = RUNGS,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
) -> Replication:
    """Fresh games under the verdict's protection, by every attack of every rung asked for.

    Where the claim is that participation is secret, by the one attack that can be made then.
    """
    if verdict.protection is None:
        raise InvalidInput(
            f"the verdict on {verdict.federation.scenario} chose no protection, so there is "
            f"nothing to attack; take one that did."
        )
    counted("units (games to play)", units)
    Seeded(seed)
    reads = verdict.protection.transport.server_reads
    if verdict.request.adversary is Adversary.SERVER and reads == "nothing":
        raise InvalidInput(
            f"the server reads nothing under {verdict.protection.describe()}, which rests on its "
            f"key; attack the verdict of a run with --adversary client."
        )
    scenario = source if isinstance(source, Scenario) else source()
    if run is not None:
        require_scenario(run, scenario)
        require_own(run, parts_of(verdict.protection))
    asked, spec = verdict.request, verdict.protection.describe()
    bench = Bench(
        *(source, verdict.claim, restarts or asked.restarts, asked.steps, seed),
        together=views_together(scenario),
        threshold=verdict.deployment.threshold,
    )
    recipe = None if verdict.choice is None else recipe_of(verdict.choice)
    if verdict.claim.participation == "secret":
        if "rest" not in rungs:
            raise InvalidInput(
                "the verdict claims that nobody is told which rounds held a record, which only "
                "who knows the rest can do without; attack it on the rung 'rest'."
            )
        rungs = ("rest",)
    proved = verdict.choice is not None and verdict.choice.certificate is not None
    claimed = RUNGS.index("rest" if proved or asked.knows == "anyone" else asked.knows)

    def attacked(rung: Rung, attack: str) -> Procedure[Attacked]:
        job = AttackJob(
            *("again", spec, (attack,), asked.adversary, verdict.claim.rounds, 0, units),
            recipe=recipe,
            participation=verdict.claim.participation,
        )
        seen = yield from played(job, _CHUNK)
        won = int(seen.correct[attack].sum())
        return Attacked(
            rung=rung,
            attack=attack,
            claimed=RUNGS.index(rung) <= claimed,
            units=units,
            recovered=won,
            success=success_rate(won, units, asked.confidence),
            p_value=float(binom.sf(won - 1, units, verdict.largest_success_rate)),
            after=seen.after[attack],
        )

    wanted = {
        name: attacked(get(name).rung, name)
        for rung in rungs
        for name in suite_of(scenario, rung).attacks
        if get(name).rung in rungs
    }
    if ticker is not None:
        games = Range(units, units)
        kinds = {name: Kind("games", (name,), verdict.claim.rounds) for name in wanted}
        ticker.expect(Remaining({name: {kinds[name]: games} for name in wanted}, workers))
    with executor(bench, workers=workers, ray=ray, device=scenario.device) as crew:
        found = Scheduler(crew, decode, run=run, watcher=ticker).run_all(wanted)
    return Replication(verdict, seed, tuple(found[name] for name in wanted))
