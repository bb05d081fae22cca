"""What does a setting buy? Attacked as a curious server would, proved, trained, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from trilemma.accounting.noise_calibration import epsilon
from trilemma.attacks import get
from trilemma.attacks.base import KNOWLEDGE_LEVELS, links
from trilemma.errors import InvalidInput
from trilemma.execution.pool import executor, one_thread
from trilemma.execution.scheduler import Scheduler
from trilemma.game.costs import lost_accuracy
from trilemma.game.estimates import success_rate
from trilemma.game.gpu_sharing import views_together
from trilemma.game.job_results import Diverged, converged, decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, TrainJob
from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Arena
from trilemma.game.playing.suite import leading, suite_of
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import parts_of, require_own, require_scenario
from trilemma.observations import Adversary
from trilemma.protection.transforms.update_clipping import ClippingSchedule
from trilemma.tuning.audit.audit_result import Accuracy, Attempt, Audit, Best, Known, Nearest
from trilemma.tuning.audit.framework_setting import Run as Setup
from trilemma.tuning.audit.framework_setting import Setting
from trilemma.tuning.audit.setting_guarantees import DELTA, guarantees, noise_needed
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.noise_for_budget import Proof
from trilemma.tuning.request import Request
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.time_left import Kind, Range, Remaining, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.attacks import KnowledgeLevel
    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.execution.scheduler import Procedure
    from trilemma.federation.recipe import Recipe
    from trilemma.federation.training import History
    from trilemma.game.scenario import Source
    from trilemma.tuning.audit.setting_guarantees import Guaranteed

__all__ = ["audit_setting"]

_CHUNK: Final = 16


@dataclass(frozen=True)
class _Audited:
    """One setting in one federation, and what is asked of it."""

    scenario: Scenario
    setting: Setting
    setup: Setup
    request: Request
    claim: Claim
    p_max: float
    units: int

    @cached_property
    def attacks(self) -> dict[KnowledgeLevel, tuple[str, ...]]:
        """By knowledge the attacks that need it and that apply."""
        seen = "message" if self.setup.sent.transport.server_reads == "messages" else "sum"
        # Those that link rounds read them as one: a norm of each round would need several.
        apart = any(
            isinstance(transform, ClippingSchedule) for transform in self.setup.sent.transforms
        )
        return {
            knows: tuple(
                name
                for name in suite_of(self.scenario, knows, rounds=self.claim.rounds).on(seen)
                if get(name).knows == knows and not (apart and links(get(name)))
            )
            if leading(self.scenario, knows, self.claim.rounds)
            else ()
            for knows in KNOWLEDGE_LEVELS
        }

    @property
    def granted(self) -> tuple[KnowledgeLevel, ...]:
        """What the attackers of the budget know."""
        if self.request.knows == "anyone":
            return KNOWLEDGE_LEVELS
        return KNOWLEDGE_LEVELS[: KNOWLEDGE_LEVELS.index(self.request.knows) + 1]

    def attempts(
        self, setup: Setup, names: Sequence[str], *, units: int, shared: int, stream: str = "audit"
    ) -> Procedure[tuple[Attempt, ...]]:
        """The same games for each of some attacks; `shared` intervals hold together."""
        if not names:
            return ()
        job = AttackJob(
            *(stream, setup.sent.describe(), tuple(names), Adversary.SERVER, self.claim.rounds),
            first=0,
            count=units,
            recipe=setup.recipe,
        )
        seen = yield from played(job, _CHUNK)
        confidence = 1 - (1 - self.request.confidence) / shared
        made = []
        for name in names:
            won = int(seen.correct[name].sum())
            made.append(Attempt(name, units, won, success_rate(won, units, confidence)))
        return tuple(sorted(made, key=lambda each: -each.recovered))

    def accuracy(self, setup: Setup, recipe: Recipe | None = None) -> Procedure[Accuracy]:
        """What is lost against the federation's own training without protection."""
        spec, seeds = setup.trained.describe(), range(self.request.seeds)
        rounds, metric = self.claim.rounds, self.metric
        plain = [TrainJob("none", seed, rounds) for seed in seeds]
        within = [TrainJob(spec, seed, rounds, recipe or setup.recipe) for seed in seeds]
        results = yield [*plain, *within]
        try:
            histories: list[History] = converged(results)
        except Diverged as error:
            return Accuracy(metric, None, None, None, len(seeds), str(error))
        before, after = histories[: len(seeds)], histories[len(seeds) :]
        found = lost_accuracy(spec, before, after, self.request.confidence)
        return Accuracy(metric, *found, len(seeds))

    @property
    def metric(self) -> str:
        """What trainings are judged by."""
        return "minus the loss" if self.scenario.classes is None else "accuracy"

    def proofs(self, setup: Setup) -> tuple[Guaranteed, ...]:
        """What is proved of a setting."""
        size = self.claim.candidates
        return guarantees(setup, self.scenario, rounds=self.claim.rounds, candidates=size)

    def proved(self, setup: Setup) -> Guaranteed | None:
        """The proof against the server that keeps the budget."""
        own = [item for item in self.proofs(setup) if item.against == "server"]
        best = min(own, key=lambda each: each.leakage, default=None)
        return best if best is not None and best.leakage <= self.request.budget else None

    def nearest(self) -> Procedure[Nearest | str]:
        """The same kind, as strong as the budget needs: by proof, or by a short search."""
        if self.proved(self.setup) is not None:
            return "The setting keeps the budget by proof."
        if (yield from self._keeps()):
            return "The setting keeps the budget, as far as was measured."
        rounds, budget = self.claim.rounds, self.request.budget
        factor = noise_needed(self.setup, self.scenario, rounds=rounds, budget=budget)
        stronger = None if factor is None else self.setting.noisier(factor)
        if stronger is not None:
            setup = stronger.run(self.scenario)
            proof = self.proved(setup)
            if proof is not None:
                accuracy = yield from self.accuracy(setup)
                return self._nearest(stronger, "proved", proof.success, accuracy)
        return (yield from self._searched())

    def _keeps(self) -> Procedure[bool]:
        """Whether every granted attack on the setting itself stays below the largest rate."""
        shared, tried = sum(map(len, self.attacks.values())), list[Attempt]()
        for knows in self.granted:
            tried += yield from self.attempts(
                self.setup, self.attacks[knows], units=self.units, shared=shared
            )
        return self.measured(tried)

    def measured(self, tried: Sequence[Attempt]) -> bool:
        """Whether attacks show that the budget is kept; none of them shows nothing."""
        if self.request.knows == "anyone" or not tried:
            return False
        return max(item.success.high for item in tried) <= self.p_max

    def _searched(self) -> Procedure[Nearest | str]:
        """The first of some stronger settings under which every granted attack fails."""
        several = list(self.setting.stronger())
        for stronger in several:
            setup = stronger.run(self.scenario)
            worst = yield from self._worst(setup, len(several))
            if worst <= self.p_max:
                accuracy = yield from self.accuracy(setup)
                return self._nearest(stronger, "measured", worst, accuracy)
        if not several:
            return "No parameter of this kind keeps the budget."
        return f"None of this kind was shown to keep the budget, up to {several[-1].describe()}."

    def _worst(self, setup: Setup, settings: int) -> Procedure[float]:
        """The largest upper limit of the granted attacks' success, or one beyond the budget.

        Some games first, which a setting far from the budget does not survive.
        """
        shared = settings * sum(len(self.attacks[knows]) for knows in self.granted)
        worst = 0.0
        for knows in reversed(self.granted):
            for units in (min(_CHUNK, self.units), self.units):
                made = yield from self.attempts(
                    setup, self.attacks[knows], units=units, shared=shared, stream="audit, nearest"
                )
                if any(item.success.low > self.p_max for item in made):
                    return 1.0
            worst = max([worst, *(item.success.high for item in made)])
            if worst > self.p_max:
                break
        return worst

    def _nearest(
        self,
        setting: Setting,
        basis: Literal["proved", "measured"],
        success: float,
        accuracy: Accuracy,
    ) -> Nearest:
        return Nearest(setting.describe(), setting.paste(), basis, success, accuracy)

    def best(self, command: str) -> Procedure[Best | str]:
        """Proved noise inside secure aggregation, trained by the rule."""
        try:
            plan = Plan.of(
                self.scenario,
                self.request.model_copy(update={"knows": "anyone", "claim": "training"}),
            )
            proof = Proof.of(plan, "secret-sharing")
            protection, recipe = proof.protection(), proof.recipe(self.scenario, self.claim.rounds)
        except InvalidInput as error:
            return str(error)
        if proof.leakage()[0] > self.request.budget:
            return "No noise inside secure aggregation keeps the budget by proof."
        setup = Setup(protection, protection, recipe, proof.threshold)
        accuracy = yield from self.accuracy(setup)
        return Best(
            protection=protection.describe(),
            noise_multiplier=proof.training.noise_multiplier,
            epsilon=epsilon(proof.training, DELTA),
            delta=DELTA,
            success=proof.success(self.claim.candidates),
            accuracy=accuracy,
            command=command,
        )


def audit_setting(
    source: Source,
    setting: Setting,
    request: Request,
    *,
    units: int,
    command: str,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
) -> Audit:
    """Play `units` games of each attack under a setting, prove what can be, train, and compare.

    `command` is what tunes the best protection of any kind.
    """
    scenario = source if isinstance(source, Scenario) else source()
    rounds = request.rounds or scenario.rounds
    claim = Arena.of(scenario, rounds=rounds).claim
    request, p_max = request.resolved(claim.kappa)
    with one_thread():  # sums must not change their order with the number of cores
        setup = setting.run(scenario)
        audited = _Audited(scenario, setting, setup, request, claim, p_max, units)
        attacks = audited.attacks
    if run is not None:
        require_scenario(run, scenario)
        require_own(run, parts_of(setup.sent))
    names = [name for own in attacks.values() for name in own]
    job_runner = JobRunner(
        *(source, claim, request.restarts, request.steps, request.seed),
        together=views_together(scenario),
        threshold=setup.threshold or min(scenario.per_round, 2 * scenario.per_round // 3 + 1),
    )
    if ticker is not None:
        carrier = setup.sent.transport.name
        work: dict[str, Work] = {
            knows: {Kind("games", own, rounds, carrier): Range(units, units)}
            for knows, own in attacks.items()
            if own
        }
        ticker.expect(Remaining(work, workers))
    procedures: dict[str, Procedure[object]] = {
        **{
            knows: audited.attempts(setup, own, units=units, shared=len(names))
            for knows, own in attacks.items()
        },
        "accuracy": audited.accuracy(setup),
        "nearest": audited.nearest(),
        "best": audited.best(command),
    }
    with executor(job_runner, workers=workers, ray=ray, device=scenario.device) as pool:
        found = Scheduler(pool, decode, run=run, watcher=ticker).run_all(procedures)
    known = tuple(
        Known(knows, knows in audited.granted, found[knows]) for knows in KNOWLEDGE_LEVELS
    )
    proved = audited.proved(setup) is not None
    tried = [attempt for own in known if own.granted for attempt in own.attempts]
    measured = audited.measured(tried)
    nearest, best = found["nearest"], found["best"]
    near = nearest if isinstance(nearest, Nearest) else None
    first = best if isinstance(best, Best) else None
    keeps = proved or measured
    return Audit(
        setting=setting.describe(),
        source=setting.source,
        sent=setup.sent.describe(),
        trained=setup.trained.describe(),
        scenario=scenario.name,
        claim=claim,
        knows=request.knows,
        budget=request.budget,
        largest_success_rate=p_max,
        confidence=request.confidence,
        keeps=keeps,
        basis="proved" if proved else "measured" if measured else "none",
        known=known,
        guaranteed=audited.proofs(setup),
        accuracy=found["accuracy"],
        nearest=near,
        no_nearest="" if near else str(nearest),
        best=first,
        no_best="" if first else str(best),
        paste=_pasted(setting, near, first, keeps=keeps),
        remarks=(*setting.remarks(scenario), *setup.sent.caveats),
        seed=request.seed,
        versions=versions(),
    )


def _pasted(setting: Setting, nearest: Nearest | None, best: Best | None, *, keeps: bool) -> str:
    """One line: the setting itself if it keeps the budget, the nearest that does, or a command."""
    if keeps:
        return setting.paste()
    if nearest is not None:
        return nearest.paste
    return "" if best is None else best.command
