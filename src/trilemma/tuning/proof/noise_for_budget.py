"""From a request to noise: how much each client adds so that no attacker exceeds the budget.

FedSGD clips every record's gradient to C before the mean over S, so that one record moves the sum
by at most C/S. Every round uses all records, so that nothing rests on the secrecy of batches, and
S is the number of records of the smallest client. Poisson batches are drawn where participation
is to be secret, where full ones cost a client too much, and where its own training is kept.
FedAvg clips the whole change of the weights to C; there a client moves the sum by at most C, and a
record by at most 2C: the smaller noise is taken (`bounds.weight_changes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from trilemma.accounting.guarantee import Transport, honest_noises
from trilemma.accounting.local_steps import client_level, noise_ratio_for, record_level
from trilemma.accounting.noise_calibration import (
    leakage_bound,
    leakage_supremum,
    noise_multiplier_for,
    success_bound,
)
from trilemma.accounting.noise_multiplier import Cohort
from trilemma.accounting.rounding import check_grid, grid_remainder, range_for
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.errors import InvalidInput
from trilemma.federation.cohort_updates import forward_flops
from trilemma.federation.deployment_terms import Deployment, room_for
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.base import LEAST_NOISE
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.families.proof_conditions import check_scenario
from trilemma.tuning.recipe_rule import Fixed, clip_of, kept_clip, recipe_under_noise

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.federation.server_parts import PublicRecords
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining
    from trilemma.tuning.plan import Plan

__all__ = ["ARITHMETIC", "FAILURE", "NOISE_GRID", "Proof", "bearable_records", "helpers_of"]

FAILURE: Final = 1e-9  # that any message of the training leaves the transport's range
_FINEST: Final = 3.0  # steps of a transport's grid in a standard deviation of one message
ARITHMETIC: Final = 1e-3  # of a clip: more than sums in 32 bits add to one record's influence
_FLOPS: Final = 1_500_000_000  # of a round of all clients: a tenth of a second of one core
_ENTRIES: Final = 1 << 26  # of a client's gradients in a round, which fill 256 MiB
NOISE_GRID: Final = 2.0**-24  # of a standard deviation, on which values and noise meet


@dataclass(frozen=True)
class Proof:
    """What is proved for one transport; `training` holds q, R and z.

    `survivors` honest clients hide a record by their noise: the threshold less the helpers (and
    those whom a lying server may keep out of a large cohort's sum) where only the sum is seen, one
    where single messages are. `remainder` is what fixed point adds to
    any success rate. `clients` of the `population` take part in a round; that hides no record, as
    the server sees who does.
    """

    level: Literal["record", "client"]
    training: Training
    local_training: LocalTraining
    transport: Transport
    population: int
    clients: int
    records: tuple[int, ...]
    parameters: int
    threshold: int
    survivors: int
    helpers: int
    person: int
    remainder: float
    candidates: int | None
    clip: float
    fixed: Fixed
    public: PublicRecords | None

    @classmethod
    def of(cls, plan: Plan, transport: Transport) -> Proof:
        """The proof that the plan's request asks for; refused where the scenario allows none."""
        request, scenario = plan.request, plan.scenario
        own, sizes = scenario.local_training, tuple(map(len, scenario.records))
        clients, parameters = scenario.per_round, scenario.task.layout.size
        threshold = plan.deployment.threshold
        curious = helpers_of(plan)
        summed = transport != "plain" or request.adversary is Adversary.CLIENT
        # The mean that a curious client reads has no graph that a server could lie about.
        seen: Transport = "paillier" if summed and transport == "plain" else transport
        honest = honest_noises(seen, clients, threshold, curious)
        rounds = plan.pricing.rounds if request.claim == "training" else 1
        remainder = 0.0
        if transport != "plain":
            rounding = {"messages": clients, "coordinates": parameters, "rounds": rounds}
            remainder = FAILURE + grid_remainder(1.0, _FINEST, **rounding)
        fixed = Fixed.of(request)
        clip = fixed.clip or (kept_clip(scenario) if fixed.kept else _rules_clip(own))
        level, training, local_training = _trained(
            replace(own, record_clip=clip) if own.algorithm == "fedsgd" else own,
            sizes,
            kept=fixed.kept,
            budget=request.budget,
            rounds=rounds,
            known_round=request.claim == "one-round",
            secret=request.participation == "secret",
            most=bearable_records(scenario),
            person=request.person,
            candidates=request.candidates,
            remainder=remainder,
        )
        check_scenario(scenario, by_record=local_training.by_record)
        if training.participation == "secret" and clients < len(sizes):
            raise InvalidInput(
                f"participation='secret' hides in which of {rounds} rounds a record was used, but "
                f"{clients} of {len(sizes)} clients take part in a round, the server sees in "
                "which, and fewer rounds hide it worse; let all clients take part, or leave "
                "participation='known'."
            )
        return cls(
            level=level,
            training=training,
            local_training=local_training,
            transport=transport,
            population=len(sizes),
            clients=clients,
            records=sizes,
            parameters=parameters,
            threshold=threshold,
            survivors=honest,
            helpers=curious,
            person=request.person,
            remainder=remainder,
            candidates=request.candidates,
            clip=clip,
            fixed=fixed,
            public=plan.public,
        )

    @property
    def clips_updates(self) -> bool:
        """Whether whole updates are clipped, not single records."""
        return self.local_training.algorithm == "fedavg"

    @property
    def participation(self) -> Participation:
        """What is granted: the rounds that held the record, or not."""
        return self.training.participation

    def success(self, candidates: int, participation: Participation | None = None) -> float:
        """How often anyone guesses the right one of N candidates, at most."""
        training = self.training
        if participation is not None:
            training = replace(training, participation=participation)
        return success_bound(training, candidates, remainder=self.remainder)

    def leakage(self) -> tuple[float, int]:
        """The largest leakage over the N that are claimed, and an N that (nearly) attains it."""
        return _worst(self.training, self.candidates, self.remainder)

    def variance(self) -> float:
        """What each client adds to each coordinate of its update.

        Arithmetic may add 10⁻³ of the clip to a record's influence, and the grid 2⁻²⁴ s on which
        the system's noise meets the update another 2⁻²⁴ s √m, so that a little more than
        z·C/S is needed.
        """
        cohort = Cohort.equal(
            clients=self.survivors,
            denominator=1 if self.clips_updates else self.local_training.batch,
            record_clip=self.clip * (1 + ARITHMETIC),
            threshold=self.survivors,
        )
        grid = self._noise_over_influence() * NOISE_GRID * math.sqrt(self.parameters)
        if grid >= 0.5:
            raise InvalidInput(
                f"a model of {self.parameters} parameters needs noise on a finer grid than the "
                "system's to be certified; raise the budget, or train a smaller model."
            )
        return cohort.variance_for(self._noise_over_influence() / (1 - grid))

    def _noise_over_influence(self) -> float:
        """z, or s/C for changes of weights, whose record moves them by 2C."""
        twice = self.clips_updates and self.level == "record"
        return self.training.noise_multiplier * (2 if twice else 1)

    def protection(self) -> Protection:
        """What a federation runs: the noise, and a transport whose grid and range fit it."""
        noise = Randomization(self.variance(), self.clip if self.clips_updates else None)
        if self.transport == "plain":
            return Protection((noise,))
        kind = SecretSharing if self.transport == "secret-sharing" else Paillier
        reach, least = self._reach(noise), noise.scale * LEAST_NOISE / _FINEST
        transport = kind.fitted(reach, self.clients, least)
        check_grid(transport.step_size(), noise.scale)
        return Protection((noise,), transport)

    def _reach(self, noise: Randomization) -> float:
        """The largest coordinate of any message, but for probability `FAILURE` in all."""
        batch, most = self.local_training.batch, self.local_training.records
        clipped = {"records": 1, "q": 1.0, "denominator": 1.0}
        largest = max(self.records)
        full = {"records": most or largest, "q": 1.0}
        poisson = {"records": largest, "q": batch / largest}
        drawn = full if self.local_training.sampling == "full" else poisson
        parts = clipped if self.clips_updates else {**drawn, "denominator": float(batch)}
        return range_for(
            **parts,  # type: ignore[arg-type]
            record_clip=self.clip * (1 + ARITHMETIC),
            deviation=noise.scale,
            coordinates=self.parameters,
            rounds=self.training.rounds,
            failure=FAILURE / self.clients,
        )

    def recipe(self, scenario: Scenario, rounds: int) -> Recipe:
        """How so many rounds are trained: by the rule, but for what the user fixed.

        The rule is about means of clipped updates. S is that of the smallest client, so that in
        full batches a sum over S is n̄/S times the mean, n̄ the mean number of records; a public
        gradient is a mean as it is.
        """
        training, share = self.local_training, 1.0
        if training.sampling == "full":
            share = training.batch * len(self.records) / sum(self.records)
        noise = share * math.sqrt(self.variance() / self.clients) / self.clip
        recipe = recipe_under_noise(
            scenario,
            training,
            noise,
            rounds=rounds,
            clip=self.clip,
            threshold=self.threshold,
            fixed=self.fixed,
        )
        public = recipe.public_weight
        whole = public + (1 - public) * share
        step = recipe.step if self.fixed.server_step or self.fixed.kept else whole * recipe.step
        weight = public if self.fixed.public_weight is not None else public / whole
        return replace(recipe, server_lr=step, public_weight=weight)

    def deployment(self, recipe: Recipe) -> Deployment:
        """What a federation has to keep to, so that the proof is about it, by a settled recipe."""
        return Deployment(
            recipe.local_training,
            self.parameters,
            clients=self.population,
            cohort=self.clients,
            threshold=self.threshold,
            weighting="equal",
            rounds=self.training.rounds,
            sampling_rate=self.local_training.unit_size / min(self.records),
            participation=(
                self.participation if self.local_training.sampling == "poisson" else "known"
            ),
            helpers=self.helpers,
            server=recipe.server(self.public),
        )


def helpers_of(plan: Plan) -> int:
    """c, the clients that may help: as asked, else one where a round ends with two or more."""
    asked = plan.request.helpers
    given = int(plan.deployment.threshold > 1) if asked is None else asked
    return max(given, int(plan.request.adversary is Adversary.CLIENT))


@lru_cache(maxsize=1)  # families share it
def bearable_records(scenario: Scenario) -> int:
    """Records of a client whose gradients a round can pay for; backward takes twice as forward."""
    some = scenario.records[0].inputs[:2].to(scenario.device)
    forward = forward_flops(scenario.task, some) / len(some)
    by_time = _FLOPS / max(1.0, 3 * forward * scenario.per_round)
    return int(min(by_time, _ENTRIES / scenario.task.layout.size))


def _rules_clip(own: LocalTraining) -> float:
    """C as the rule has it, whatever the federation clips to."""
    return clip_of(replace(own, record_clip=None))


def _worst(training: Training, candidates: int | None, remainder: float) -> tuple[float, int]:
    if candidates is None:
        return leakage_supremum(training, remainder=remainder)
    return leakage_bound(training, candidates, remainder=remainder), candidates


@lru_cache(maxsize=32)
def _trained(
    own: LocalTraining,
    sizes: tuple[int, ...],
    *,
    kept: bool,
    budget: float,
    rounds: int,
    known_round: bool,
    secret: bool,
    most: int,
    person: int,
    candidates: int | None,
    remainder: float,
) -> tuple[Literal["record", "client"], Training, LocalTraining]:
    """What is hidden, the training with the least noise that hides it, and how clients train.

    S is the same for all clients, so that all have the same z; the one with the fewest records has
    the largest q. Poisson sampling draws anew for every step, so that no client holds a fixed set
    for a round. Where the own training is `kept`, so is its batch, full ones or expected.
    """
    least = min(sizes)
    poisson = replace(own, sampling="poisson", records=None)
    if own.algorithm == "fedsgd":
        paid = least if kept and own.sampling == "full" else max(own.batch, most)
        if (kept and own.sampling != "full") or (secret and paid >= least):
            paid = own.batch
        poisson = replace(poisson, batch=min(least, paid))
    q = 1.0 if known_round else poisson.batch / least
    who: Participation = "secret" if secret and q < 1 else "known"
    if own.algorithm == "fedsgd":
        drawn = poisson
        if who == "known" and drawn.batch == least:
            drawn = replace(drawn, sampling="full", records=room_for(max(sizes)))
        z = noise_multiplier_for(
            budget,
            rounds=rounds,
            q=q,
            participation=who,
            candidates=candidates,
            records_of_person=person,
            remainder=remainder,
        )
        return "record", Training(rounds, q, z, who, person), drawn
    ratio = noise_ratio_for(
        budget,
        rounds,
        q=q,
        steps=own.steps,
        participation=who,
        candidates=candidates,
        records_of_person=person,
        remainder=remainder,
    )
    whole = client_level(ratio, rounds)
    if _worst(whole, candidates, remainder)[0] <= budget:
        return "client", whole, own
    record = record_level(
        ratio, rounds, q=q, steps=own.steps, participation=who, records_of_person=person
    )
    return "record", record, poisson
