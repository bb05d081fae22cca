"""What does a setting buy? Attacked as a curious server would, proved, trained, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from trilemma.accounting.guarantee import usual_threshold
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
    from collections.abc import Mapping, Sequence

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

    @classmethod
    def of(cls, scenario: Scenario, setting: Setting, request: Request, units: int) -> _Audited:
        """What is asked of a setting in a federation."""
        claim = Arena.of(scenario, rounds=request.rounds or scenario.rounds).claim
        request, p_max = request.resolved(claim.kappa)
        return cls(scenario, setting, setting.run(scenario), request, claim, p_max, units)

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

    @property
    def work(self) -> dict[str, Work]:
        """The games that are certain to be played."""
        carrier = self.setup.sent.transport.name
        games = Range(self.units, self.units)
        return {
            knows: {Kind("games", own, self.claim.rounds, carrier): games}
            for knows, own in self.attacks.items()
            if own
        }

    def shown(self, knows: KnowledgeLevel) -> Procedure[tuple[Attempt, ...]]:
        """The attacks of who knows so much on the setting itself; intervals hold for all."""
        shared = sum(map(len, self.attacks.values()))
        return self.attempts(self.setup, self.attacks[knows], units=self.units, shared=shared)

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
            proof = self.proved(stronger.run(self.scenario))
            if proof is not None:
                return (yield from self._nearest(stronger, "proved", proof.success))
        return (yield from self._searched())

    def _keeps(self) -> Procedure[bool]:
        """Whether every granted attack on the setting itself stays below the largest rate."""
        tried = list[Attempt]()
        for knows in self.granted:
            tried += yield from self.shown(knows)
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
            worst = yield from self._worst(stronger.run(self.scenario), len(several))
            if worst <= self.p_max:
                return (yield from self._nearest(stronger, "measured", worst))
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
        self, setting: Setting, basis: Literal["proved", "measured"], success: float
    ) -> Procedure[Nearest]:
        accuracy = yield from self.accuracy(setting.run(self.scenario))
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

    def result(self, found: Mapping[str, Any]) -> Audit:
        """The audit, of what its procedures found."""
        known = tuple(
            Known(knows, knows in self.granted, found[knows]) for knows in KNOWLEDGE_LEVELS
        )
        tried = [attempt for own in known if own.granted for attempt in own.attempts]
        proved, measured = self.proved(self.setup) is not None, self.measured(tried)
        nearest, no_nearest = _or_why(found["nearest"])
        best, no_best = _or_why(found["best"])
        paste = "" if best is None else best.command
        if proved or measured:
            paste = self.setting.paste()
        elif nearest is not None:
            paste = nearest.paste
        return Audit(
            setting=self.setting.describe(),
            source=self.setting.source,
            sent=self.setup.sent.describe(),
            trained=self.setup.trained.describe(),
            scenario=self.scenario.name,
            claim=self.claim,
            knows=self.request.knows,
            budget=self.request.budget,
            largest_success_rate=self.p_max,
            confidence=self.request.confidence,
            keeps=proved or measured,
            basis="proved" if proved else "measured" if measured else "none",
            known=known,
            guaranteed=self.proofs(self.setup),
            accuracy=found["accuracy"],
            nearest=nearest,
            no_nearest=no_nearest,
            best=best,
            no_best=no_best,
            paste=paste,
            remarks=(*self.setting.remarks(self.scenario), *self.setup.sent.caveats),
            seed=self.request.seed,
            versions=versions(),
        )


def _or_why(found: Any) -> tuple[Any, str]:
    """What was found, or why not."""
    return (None, found) if isinstance(found, str) else (found, "")


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
    with one_thread():  # sums must not change their order with the number of cores
        audited = _Audited.of(scenario, setting, request, units)
    sent, claim, request = audited.setup.sent, audited.claim, audited.request
    if run is not None:
        require_scenario(run, scenario)
        require_own(run, parts_of(sent))
    job_runner = JobRunner(
        *(source, claim, request.restarts, request.steps, request.seed),
        together=views_together(scenario),
        threshold=audited.setup.threshold or usual_threshold(scenario.per_round),
    )
    if ticker is not None:
        ticker.expect(Remaining(audited.work, workers))
    procedures: dict[str, Procedure[Any]] = {
        **{knows: audited.shown(knows) for knows in KNOWLEDGE_LEVELS},
        "accuracy": audited.accuracy(audited.setup),
        "nearest": audited.nearest(),
        "best": audited.best(command),
    }
    with executor(job_runner, workers=workers, ray=ray, device=scenario.device) as pool:
        found = Scheduler(pool, decode, run=run, watcher=ticker).run_all(procedures)
    return audited.result(found)
