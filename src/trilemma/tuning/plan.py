"""A request resolved for one federation: the claim, the attackers, the families, the prices."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks import KnowledgeLevel, get
from trilemma.attacks.crafted import IMPRINT, require_craftable
from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.errors import InvalidInput
from trilemma.execution.pool import executor, one_thread
from trilemma.federation.deployment_terms import Deployment, room_for
from trilemma.federation.server_parts import PublicRecords
from trilemma.game.estimates import Estimate, client_leakage
from trilemma.game.gpu_sharing import views_together
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import Job
from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Arena
from trilemma.game.playing.suite import Suite, suite_of
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import data_hash, require_own, require_scenario
from trilemma.tuning.families.calibrator import CHUNK, FEW, FRESH, Calibrator, streams
from trilemma.tuning.families.family import Family, families, families_asked
from trilemma.tuning.families.family_setting import Setting
from trilemma.tuning.families.pricing import Pricing
from trilemma.tuning.families.proof_conditions import CERTIFIED, check_scenario
from trilemma.tuning.presets import Preset
from trilemma.tuning.request import BESIDE, Request
from trilemma.tuning.results.verdict import Federation

if TYPE_CHECKING:
    from collections.abc import Collection

    from trilemma.execution.journal import Run
    from trilemma.execution.pool import Executor
    from trilemma.game.scenario import Source

__all__ = ["Plan"]

_FRESH: Final[dict[Preset, int]] = {"quick": 48, "usual": FRESH, "thorough": 300}


@dataclass(frozen=True)
class Plan:
    """What is measured, against whom and with which effort, before anything is."""

    source: Source
    scenario: Scenario
    request: Request
    claim: Claim
    p_max: float
    setting: Setting
    suite: Suite
    families: tuple[Family, ...]
    pricing: Pricing
    federation: Federation
    deployment: Deployment
    public: PublicRecords | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        request: Request,
        *,
        run: Run | None = None,
        beside: Collection[str] = BESIDE,
    ) -> Plan:
        """Look at the federation: its claim, its updates, the families that it can run.

        A run that holds chunks of another federation or another request is refused; settings
        `beside` decide no number.
        """
        scenario = source if isinstance(source, Scenario) else source()
        if run is not None:
            require_scenario(run, scenario)
            run.require(request.decides(beside), whose="the request's")
        key = secrets.token_bytes(32) if run is None else run.key("data")
        trained = request.rounds or scenario.rounds
        rounds = 1 if request.claim == "one-round" else trained
        claim = _claim(scenario, request, rounds)
        request, p_max = request.resolved(claim.kappa)
        if p_max >= 1 and request.knows != "anyone":
            raise InvalidInput(
                f"a budget of {request.budget:g} allows every guess to be right: among "
                f"{claim.candidates} candidates no record leaks more than "
                f"{bernoulli_leakage(1.0, claim.kappa):.4g}; give a smaller one."
            )
        if request.server == "malicious":
            require_craftable(scenario.task)
        knows: KnowledgeLevel = "rest" if request.knows == "anyone" else request.knows
        with one_thread():  # sums must not change their order with the number of cores
            setting = None if run is None else Setting.kept(run)
            setting = setting or Setting.of(scenario, seed=request.seed, steps=request.steps)
            suite = suite_of(scenario, knows, request.attacks, rounds=rounds)
        chosen = families(
            *(setting, claim, p_max, request.adversary),
            families_asked(request, setting.clients),
            proved=request.knows == "anyone",
        )
        made = cls(
            source=source,
            scenario=scenario,
            request=request,
            claim=claim,
            p_max=p_max,
            setting=setting,
            suite=suite,
            families=chosen,
            pricing=Pricing(
                request.problem,
                trained,
                tuple(range(request.seeds)),
                request.bandwidth,
                request.confidence,
            ),
            federation=Federation.of(scenario, data_hash(scenario, key)),
            deployment=_deployment(scenario, request, rounds),
            public=None if scenario.public is None else _public(scenario, run),
        )
        torch.cuda.empty_cache()  # of a GPU: workers need what this process does no more
        if run is not None:
            require_own(run, made.own)
        return made

    @property
    def crafted(self) -> str | None:
        """What a malicious server sends in the place of its model, in games that are measured."""
        return IMPRINT if self.request.server == "malicious" else None

    @property
    def own(self) -> dict[str, object]:
        """Mechanisms and attacks by name; those of the user's own are named module:object."""
        mechanisms = {item.name: item.mechanism for item in self.families}
        return {**mechanisms, **{name: get(name) for name in self.suite.attacks}}

    def proves(self, family: Family) -> bool:
        """Whether a family is proved, and not measured."""
        if self.request.knows == "anyone":
            return True
        return self.request.basis == "proved" and family.name in CERTIFIED and not self.unprovable

    @cached_property
    def unprovable(self) -> str:
        """Why the scenario allows no proof; "" where it does."""
        try:
            by_record = self.scenario.local_training.algorithm == "fedsgd"
            check_scenario(self.scenario, by_record=by_record)
        except InvalidInput as error:
            return str(error)
        return ""

    def calibrator(self) -> Calibrator:
        """Plays games for one procedure, at its share of the error probability."""
        tested = [
            item
            for item in self.families
            if item.tested_over(self.claim.rounds) and not self.proves(item)
        ]
        level = (1 - self.request.confidence) / streams(tested)
        bare = (item for item in tested if item.mechanism is None and item.seen == "sum")
        cores = torch.device(self.scenario.device).type == "cpu"
        return Calibrator(
            *(self.suite, self.request.adversary, self.claim.rounds, self.p_max, level),
            bare=next(bare, None),
            brief=self.request.preset == "quick",
            part=FEW if cores and self.claim.rounds > 1 else CHUNK,
            fresh=_FRESH[self.request.preset],
            crafted=self.crafted,
        )

    def leakage(self, won: int, games: int) -> Estimate:
        """What so many right guesses leak, with an interval that holds for this number alone."""
        sure, kappa = self.request.confidence, self.claim.kappa
        return client_leakage(won, games, confidence=sure, kappa=kappa)

    def at_most(self, seeds: int) -> Pricing:
        """Prices by fewer trainings, for what is only looked at."""
        return replace(self.pricing, seeds=self.pricing.seeds[:seeds])

    @property
    def job_runner(self) -> JobRunner:
        """What can do every task of this plan."""
        asked = self.request
        return JobRunner(
            *(self.source, self.claim, asked.restarts, asked.steps, asked.seed, self.suite.knows),
            together=views_together(self.scenario),
            threshold=self.deployment.threshold,
        )

    def pool(self, workers: int, ray: str | None = None) -> Executor[Job]:
        """Workers that can do every task of this plan."""
        return executor(self.job_runner, workers=workers, ray=ray, device=self.scenario.device)


def _claim(scenario: Scenario, request: Request, rounds: int) -> Claim:
    """What is measured; a proof covers candidate sets that no data could fill."""
    if request.knows != "anyone":
        return Arena.of(scenario, rounds=rounds, candidates=request.candidates).claim
    claim = Arena.of(scenario, rounds=rounds).claim
    size = min(request.candidates or claim.candidates, claim.candidates)
    secret = rounds > 1 and request.participation == "secret"
    return replace(claim, candidates=size, participation="secret" if secret else "known")


def _public(scenario: Scenario, run: Run | None) -> PublicRecords:
    """Which records a server may train on; their key stands in the verdict, and is no other's."""
    key = secrets.token_bytes(32) if run is None else run.key("public records")
    return PublicRecords.of(scenario.public_records, key)


def _deployment(scenario: Scenario, request: Request, rounds: int) -> Deployment:
    """What is attacked, and therefore what may be deployed."""
    cohort, training = scenario.per_round, scenario.local_training
    usual = min(cohort, 2 * cohort // 3 + 1)
    return Deployment(
        training,
        scenario.task.layout.size,
        clients=len(scenario.records),
        cohort=cohort,
        threshold=usual if request.threshold is None else request.threshold,
        weighting="records",
        rounds=rounds,
        sampling_rate=training.unit_size / min(len(record) for record in scenario.records),
        participation="known",
        helpers=request.helpers or 0,
        server=scenario.server,
        total_records=room_for(sum(map(len, scenario.records))),
    )
