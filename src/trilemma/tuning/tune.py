"""The main job: from a budget to a protection and its parameter, with the evidence."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from trilemma.beliefs.belief import largest_success_rate
from trilemma.beliefs.intervals import Interval
from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.constants import Guess, choose_criterion
from trilemma.estimation.costs import BANDWIDTH
from trilemma.estimation.leakage import client_leakage
from trilemma.estimation.paper_bounds import update_profile
from trilemma.estimation.scenario import Scenario
from trilemma.mechanisms.protection import Protection
from trilemma.mechanisms.specs import parse_protection
from trilemma.observations import Adversary
from trilemma.parallel import Crew, one_thread
from trilemma.tuning.candidates import certified_candidate, measured_candidate, promised_candidate
from trilemma.tuning.certificate import best_clip, certify, clip_norms
from trilemma.tuning.choice import Pricing, ranked
from trilemma.tuning.families import Family, Setting, families
from trilemma.tuning.measured import Counts, Gauge, streams
from trilemma.tuning.promises import Promise, SurrogateConstants, promises, surrogate_constants
from trilemma.tuning.provenance import data_hash, require_same_data, versions
from trilemma.tuning.replay import Ask, settle
from trilemma.tuning.suite import Suite, binding_suite, pool_reads
from trilemma.tuning.tasks import Bench, Task, attack_named
from trilemma.tuning.verdict import AttackUsed, Basis, Beside, Candidate, Federation, Verdict

if TYPE_CHECKING:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.estimation.recoveries import Source
    from trilemma.progress import Ticker
    from trilemma.runs import Run
    from trilemma.tuning.problem import Problem

__all__ = ["BASES", "Effort", "tune"]

BASES: Final = ("measured", "certified", "surrogate", "all")
BasisAsked = Literal["measured", "certified", "surrogate", "all"]
Procedure = Callable[[Ask], Any]
_BESIDE_UNITS: Final = 16
_CLIP_SEEDS: Final = 2  # trainings for each clip norm that is tried

_LIMITS: Final = (
    "One round: an adversary that combines the updates of several rounds may learn more.",
    "Honest but curious: whoever deviates from the protocol is not covered.",
)


@dataclass(frozen=True)
class Effort:
    """What is spent on attacks and trainings; all of it is part of the claim.

    `restarts` of which an attack keeps the best; `steps` SGD steps of the models at which updates
    are attacked; `rounds` of each training and its paired `seeds`; `certified_rounds` that a
    certificate covers; `kappa` a stated upper limit of the blind-guess rate (None: measured);
    `clip` norm of a certificate (None: the median of the clients' update norms; "utility": the
    one that trains best); `population` from which a round samples the scenario's clients, for its
    differential privacy.
    """

    restarts: int = 3
    steps: int = 20
    rounds: int = 150
    seeds: int = 5
    certified_rounds: int = 1
    kappa: float | None = None
    clip: float | Literal["utility"] | None = None
    population: int | None = None

    def __post_init__(self) -> None:
        for name in ("restarts", "rounds", "certified_rounds"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.seeds < 2:
            raise InvalidInput(f"seeds must be at least 2, for an interval, got {self.seeds}.")
        if isinstance(self.clip, str) and self.clip != "utility":
            raise InvalidInput(f"clip must be a norm or 'utility', got {self.clip!r}.")
        if self.kappa is not None and not 0 < self.kappa < 1:
            raise InvalidInput(
                f"kappa (blind-guess rate) must lie strictly between 0 and 1, got {self.kappa}."
            )


def tune(
    source: Source,
    problem: Problem,
    *,
    protections: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    adversary: Adversary = Adversary.SERVER,
    basis: BasisAsked = "measured",
    confidence: float = 0.95,
    bandwidth: float = BANDWIDTH,
    criterion: Criterion | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    run: Run | None = None,
    data_key: bytes | None = None,
    workers: int = 1,
    ticker: Ticker | None = None,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `protections` are names of families and `attacks` of attacks that bind (None: the defaults).
    What `run` already holds is not measured again; without it everything stays in memory.
    """
    if basis not in BASES:
        raise UnknownName("basis", basis, BASES)
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie strictly between 0 and 1, got {confidence}.")
    spent = effort or Effort()
    scenario = source if isinstance(source, Scenario) else source()
    tag = data_hash(scenario, data_key or secrets.token_bytes(32))
    if run is not None and data_key is not None:
        require_same_data(run, tag)
    with one_thread():  # sums must not change their order with the number of cores
        guess = choose_criterion(scenario, criterion, seed=seed, confidence=confidence)
        setting = Setting.of(scenario, guess.criterion, adversary, seed=seed)
        suite = binding_suite(scenario, attacks)
        profile = update_profile(scenario, seed=seed)
    plan = _Plan(
        scenario=scenario,
        problem=problem,
        adversary=adversary,
        confidence=confidence,
        effort=spent,
        seed=seed,
        guess=guess,
        setting=setting,
        suite=suite,
        families=families(setting, adversary, protections),
        pricing=Pricing(
            problem, profile, spent.rounds, tuple(range(spent.seeds)), bandwidth, confidence
        ),
    )
    bench = Bench(source, guess.criterion, spent.restarts, spent.steps, seed)
    with Crew[Task](bench, workers=workers) as crew:
        found = settle(plan.procedures(basis), crew, run=run, ticker=ticker)
        candidates = ranked([each for each in found.values() if isinstance(each, Candidate)])
        chosen = next((each for each in candidates if each.rank == 1), None)
        beside = settle(plan.beside(chosen), crew, run=run, ticker=ticker)
    return plan.verdict(basis, found, candidates, chosen, beside, tag)


@dataclass(frozen=True)
class _Plan:
    """One tuning, all of its settings resolved."""

    scenario: Scenario
    problem: Problem
    adversary: Adversary
    confidence: float
    effort: Effort
    seed: int
    guess: Guess
    setting: Setting
    suite: Suite
    families: tuple[Family, ...]
    pricing: Pricing

    @property
    def p_max(self) -> float:
        """The success rate that the budget allows; a blind-guess rate of 0 is conservative."""
        return largest_success_rate(self.problem.budget)

    def gauge(self, ask: Ask, adversary: Adversary | None = None) -> Gauge:
        """Counts recovered units for one procedure, at its share of the error probability."""
        level = (1 - self.confidence) / streams(self.families)
        who = adversary or self.adversary
        return Gauge(ask, self.suite, who, self.setting.clients, self.p_max, level)

    def procedures(self, basis: BasisAsked) -> dict[str, Procedure]:
        """All that can be measured before anything is chosen, by name."""
        wanted: dict[str, Procedure] = {"control": lambda ask: self.gauge(ask).control()}
        if self.suite.shown:
            wanted["shown"] = self._shown
        if basis in ("measured", "all"):
            wanted |= {family.name: self._measured(family) for family in self.families}
        if basis in ("measured", "surrogate", "all"):
            wanted["promises"] = self._promises
        if basis == "surrogate":
            wanted["surrogate"] = lambda ask: promised_candidate(
                self._promises(ask)[1], ask, self.pricing
            )
        if basis in ("certified", "all"):
            carriers = ("plain", "secret-sharing")[: 1 + (self.setting.clients > 1)]
            wanted |= {f"certified {each}": self._certified(each) for each in carriers}
        return wanted

    def _measured(self, family: Family) -> Procedure:
        priced = any(each.name == "secret-sharing" for each in self.families)
        return lambda ask: measured_candidate(
            self.gauge(ask), family, self.pricing, sum_is_priced=priced
        )

    def _shown(self, ask: Ask) -> Counts:
        """What the attacks that do not bind recover without protection."""
        return self.gauge(ask).count(
            "control",
            Protection(),
            _BESIDE_UNITS,
            attacks=self.suite.shown,
            adversary=Adversary.SERVER,
        )

    def _promises(self, ask: Ask) -> tuple[SurrogateConstants, tuple[Promise, ...]]:
        gauge = self.gauge(ask, Adversary.SERVER)  # the paper's adversary
        found = surrogate_constants(gauge.control(), self.guess.kappa, self.confidence)
        return found, promises(gauge, found, self.problem, self.pricing.profile, self.confidence)

    def _certified(self, transport: str) -> Procedure:
        kappa, confidence = self._kappa()
        clip = self.effort.clip
        norms = clip_norms(self.setting) if clip == "utility" else (clip,)
        certificates = [
            certify(
                self.setting,
                self.problem.budget,
                kappa,
                records=self.setting.total_weight,
                kappa_confidence=confidence,
                rounds=self.effort.certified_rounds,
                clip=norm,
                adversary=self.adversary,
                transport=transport,
                population=self.effort.population,
            )
            for norm in norms
        ]
        name = "certified" if transport == "plain" else f"certified+{transport}"

        def certified(ask: Ask) -> Candidate:
            chosen = certificates[0]
            if len(certificates) > 1:
                others = tuple(range(self.effort.seeds, self.effort.seeds + _CLIP_SEEDS))
                chosen = best_clip(certificates, ask, rounds=self.effort.rounds, seeds=others)
            return certified_candidate(chosen, name, ask, self.pricing)

        return certified

    def _kappa(self) -> tuple[Interval, float | None]:
        """Up to an upper limit, and its confidence; below it the leakage is bounded for all κ."""
        measured = self.guess.kappa
        if self.effort.kappa is not None:
            return Interval(0.0, self.effort.kappa), None
        if measured is None:
            raise InvalidInput(
                "a certificate needs the success rate of a blind guess, which is measured for "
                "PSNR only; state it with kappa."
            )
        records = self.scenario.local_training.unit_size
        return Interval(0.0, measured.high_in_batch(records)), measured.confidence

    def beside(self, chosen: Candidate | None) -> dict[str, Procedure]:
        """The other adversary, and the attacks that do not bind, at what was chosen."""
        if chosen is None:
            return {}
        protection = parse_protection(chosen.protection or "none")
        wanted: dict[str, Procedure] = {}
        if self.setting.clients > 1:
            server = self.adversary is Adversary.SERVER
            other = Adversary.CLIENT if server else Adversary.SERVER
            who = "a curious client" if server else "the server"
            wanted["other"] = self._beside(protection, self.suite.binding, other, who)
        for name in self.suite.shown:
            wanted[name] = self._beside(
                protection, (name,), self.adversary, f"the {name} attacker"
            )
        return wanted

    def _beside(
        self, protection: Protection, attacks: tuple[str, ...], adversary: Adversary, who: str
    ) -> Procedure:
        def measure(ask: Ask) -> Beside:
            reads = protection.transport.server_reads
            if adversary is Adversary.SERVER and reads == "nothing":
                return Beside(who, "the server reads nothing; this rests on the key.")
            if "pool" in attacks and not pool_reads(self.scenario, protection):
                return Beside(who, "not measured: it adds up records, but batches are clipped.")
            counts = self.gauge(ask).count(
                "beside", protection, _BESIDE_UNITS, attacks=attacks, adversary=adversary
            )
            return Beside(
                who,
                f"{counts.successes} of {counts.units} units recovered (measured, not tuned for)",
                client_leakage(counts.successes, counts.units, confidence=self.confidence),
                counts.units,
                counts.successes,
            )

        return measure

    def verdict(
        self,
        basis: BasisAsked,
        found: dict[str, Any],
        candidates: tuple[Candidate, ...],
        chosen: Candidate | None,
        beside: dict[str, Beside],
        tag: str,
    ) -> Verdict:
        """Everything in one value."""
        scenario = self.scenario
        constants, made = found.get("promises", (None, ()))
        counts = [(self.suite.binding, found["control"])]
        counts += [(self.suite.shown, found["shown"])] if self.suite.shown else []
        fallback: Basis = "measured" if basis == "all" else basis
        nothing = "No protection was shown to keep the budget."
        return Verdict(
            limits=limits(chosen, self.suite, self.adversary),
            protection=None if chosen is None else parse_protection(chosen.protection or "none"),
            basis=fallback if chosen is None else chosen.basis,
            statement=nothing if chosen is None else chosen.statement,
            advice="" if chosen else advice(candidates, self.problem, self.setting),
            leakage=None if chosen is None else chosen.leakage,
            problem=self.problem,
            adversary=self.adversary,
            confidence=self.confidence,
            largest_success_rate=self.p_max,
            attacks=tuple(
                AttackUsed(
                    name=name,
                    effort=repr(attack_named(name, scenario)),
                    restarts=self.effort.restarts,
                    binding=name in self.suite.binding,
                    control_units=each.units,
                    control_recovered=each.by_attack[name],
                )
                for names, each in counts
                for name in names
            ),
            local_training=scenario.local_training,
            federation=Federation.of(scenario, self.guess, tag),
            chosen=None if chosen is None else chosen.name,
            candidates=candidates,
            beside=tuple(beside.values()),
            constants=constants,
            promises=made,
            seed=self.seed,
            training_seeds=self.pricing.seeds,
            versions=versions(),
        )


def limits(chosen: Candidate | None, suite: Suite, adversary: Adversary) -> tuple[str, ...]:
    """What the verdict does not cover, which a reader must know before anything else."""
    sentences = list(_LIMITS)
    if chosen is None or chosen.basis in ("measured", "surrogate"):
        sentences.append(
            f"These attackers only ({', '.join(suite.binding)}, with the effort stated): a better "
            f"one, or one that knows more of the data, may recover more."
        )
        sentences.append(
            "An average over records, clients, models and draws: single records may leak more."
        )
    if chosen is not None and chosen.basis == "certified":
        sentences[0] = "Only the rounds that the certificate counts."
        if chosen.certificate is not None and chosen.certificate.clip_rule != "stated":
            sentences.append(
                "The clip norm was chosen from the clients' data: what it tells of them, once "
                "published, is not counted."
            )
    sentences.append(
        "The server is the adversary: what a curious client gets is shown beside it."
        if adversary is Adversary.SERVER
        else "A curious client is the adversary: what the server gets is shown beside it."
    )
    return tuple(sentences)


def advice(candidates: Sequence[Candidate], problem: Problem, setting: Setting) -> str:
    """Where nothing keeps the budget: the smallest leakage reached, and what would help."""
    reached = [each for each in candidates if each.smallest_leakage is not None]
    able = [each for each in candidates if each.feasible and each.deployable]
    capped = [each for each in candidates if not each.feasible and each.costs is not None]
    if all(each.basis == "surrogate" for each in candidates):
        return "The paper's optimum does not keep its promise here; tune with --basis measured."
    if capped and not able:
        return "Some protections keep the budget but not the caps; raise a cap, or the budget."
    ways = "larger batches, a combined protection such as randomization+secret-sharing"
    if setting.clients < 20:
        ways = f"more clients, {ways}"
    if not reached:
        return f"Nothing was measured below the budget of {problem.budget:g}; try {ways}."
    best = min(reached, key=lambda each: each.smallest_leakage or 0.0)
    return (
        f"The smallest upper limit of the leakage reached is {best.smallest_leakage:.3g}, by "
        f"{best.name}; what would help: {ways}, or paillier, whose server reads nothing."
    )
