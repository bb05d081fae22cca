"""From a request to noise: how much each client adds so that nobody exceeds the budget.

FedSGD clips every record's gradient to C before the mean over S, so that one record moves the sum
by at most C/S. Every round uses all records, so that nothing rests on the secrecy of batches, and
S is the number of records of the smallest client; only where participation is to be secret are
Poisson batches drawn. FedAvg clips the whole change of the weights to C; there a client moves the
sum by at most C, and a record by at most 2C: the smaller noise is taken (`bounds.weight_changes`).
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
from trilemma.federation.deployment_terms import Deployment, ServerTraining, room_for
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.base import LEAST_NOISE
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.families.proof_conditions import check_scenario
from trilemma.tuning.recipe_rule import CLIP, clip_of, recipe_under_noise

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining
    from trilemma.tuning.plan import Plan

__all__ = ["ARITHMETIC", "FAILURE", "NOISE_GRID", "Proof", "helpers_of"]

FAILURE: Final = 1e-9  # that any message of the training leaves the transport's range
_FINEST: Final = 3.0  # steps of a transport's grid in a standard deviation of one message
ARITHMETIC: Final = 1e-3  # of a clip: more than sums in 32 bits add to one record's influence
_GRADIENTS: Final = 20_000_000  # entries of a round's gradients; of larger rounds a part is drawn
NOISE_GRID: Final = 2.0**-24  # of a standard deviation, on which values and noise meet


@dataclass(frozen=True)
class Proof:
    """What is proved for one transport; `training` holds q, R and z.

    `survivors` honest clients hide a record by their noise: the threshold less the helpers (and
    those whom a lying server may keep out of a large cohort's sum) where only the sum is seen, one
    where single messages are. `remainder` is what fixed point adds to
    any success rate. `clients` of the `population` take part in a round; that hides nobody, as
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
    line_up: int | None

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
        level, training, local_training = _trained(
            own,
            sizes,
            budget=request.budget,
            rounds=rounds,
            known_round=request.claim == "one-round",
            secret=request.participation == "secret",
            most=_GRADIENTS // (clients * parameters),
            person=request.person,
            line_up=request.line_up,
            remainder=remainder,
        )
        check_scenario(scenario, by_record=local_training.by_record)
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
            line_up=request.line_up,
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
        """How often anyone picks the right one of N candidates, at most."""
        training = self.training
        if participation is not None:
            training = replace(training, participation=participation)
        return success_bound(training, candidates, remainder=self.remainder)

    def leakage(self) -> tuple[float, int]:
        """The largest leakage over the line-ups claimed, and an N that (nearly) attains it."""
        return _worst(self.training, self.line_up, self.remainder)

    @property
    def clip(self) -> float:
        """C, the norm to which a record's gradient or a whole update is clipped."""
        return clip_of(self.local_training)

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
        """How so many rounds are trained: by the rule, with what a deployment carries.

        The rule is about means of clipped updates. S is that of the smallest client, so that in
        full batches a sum over S is n̄/S times the mean, n̄ the mean number of records.
        """
        training, share = self.local_training, 1.0
        if training.sampling == "full":
            share = training.batch * len(self.records) / sum(self.records)
        noise = share * math.sqrt(self.variance() / self.clients) / self.clip
        recipe = recipe_under_noise(
            scenario, training, noise, rounds=rounds, threshold=self.threshold, deployable=True
        )
        return replace(recipe, server_lr=share * recipe.step)

    def deployment(self, recipe: Recipe) -> Deployment:
        """What a federation has to keep to, so that the proof is about it."""
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
            server=ServerTraining(recipe.step, recipe.server_decay),
        )


def helpers_of(plan: Plan) -> int:
    """c, the clients that may help: as asked, else one where a round ends with two or more."""
    asked = plan.request.helpers
    given = int(plan.deployment.threshold > 1) if asked is None else asked
    return max(given, int(plan.request.adversary is Adversary.CLIENT))


def _worst(training: Training, line_up: int | None, remainder: float) -> tuple[float, int]:
    if line_up is None:
        return leakage_supremum(training, remainder=remainder)
    return leakage_bound(training, line_up, remainder=remainder), line_up


@lru_cache(maxsize=32)
def _trained(
    own: LocalTraining,
    sizes: tuple[int, ...],
    *,
    budget: float,
    rounds: int,
    known_round: bool,
    secret: bool,
    most: int,
    person: int,
    line_up: int | None,
    remainder: float,
) -> tuple[Literal["record", "client"], Training, LocalTraining]:
    """What is hidden, the training with the least noise that hides it, and how clients train.

    S is the same for all clients, so that all have the same z; the one with the fewest records has
    the largest q. Poisson sampling draws anew for every step, so that no client holds a fixed set
    for a round.
    """
    least = min(sizes)
    poisson = replace(own, sampling="poisson", records=None)
    q = 1.0 if known_round else own.batch / least
    who: Participation = "secret" if secret and q < 1 else "known"
    if own.algorithm == "fedsgd":
        drawn = replace(poisson, record_clip=CLIP)
        if who == "known":
            drawn = replace(drawn, batch=min(least, max(own.batch, most)))
            q = 1.0 if known_round else drawn.batch / least
            if drawn.batch == least:
                drawn = replace(drawn, sampling="full", records=room_for(max(sizes)))
        z = noise_multiplier_for(
            budget,
            rounds=rounds,
            q=q,
            participation=who,
            candidates=line_up,
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
        candidates=line_up,
        records_of_person=person,
        remainder=remainder,
    )
    whole = client_level(ratio, rounds)
    if _worst(whole, line_up, remainder)[0] <= budget:
        return "client", whole, own
    record = record_level(
        ratio, rounds, q=q, steps=own.steps, participation=who, records_of_person=person
    )
    return "record", record, poisson
