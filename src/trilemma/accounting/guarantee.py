"""What noise proves for a federation, from five numbers: no model, no data, no training.

    z   the least noise multiplier whose leakage is at most the budget at every N
    p   ≤ Φ(Φ⁻¹(1/N) + √R k/z)   for full batches, N candidates and k records a person

With full batches every round uses every record, so that participation is known and nothing rests
on the secrecy of sampling. Poisson sampling of a batch is `guess_bound`'s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from trilemma.accounting.noise_calibration import (
    epsilon,
    leakage_supremum,
    noise_multiplier_for,
    success_bound,
)
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.accounting.trade_off import decision_bound
from trilemma.crypto.neighbourhoods import CORRUPT, neighbourhood
from trilemma.errors import InvalidInput
from trilemma.quantities import counted, whole

__all__ = ["Guarantee", "RoundsRow", "Transport", "honest_noises", "prove", "usual_threshold"]

Transport = Literal["secret-sharing", "paillier", "plain"]
_TRANSPORTS: Final = ("secret-sharing", "paillier", "plain")
_CANDIDATES: Final = (2, 10, 100, 1000)
_ROUNDS: Final = (1, 10, 50, 100, 200, 500, 1000)
_DELTA: Final = 1e-5
_MOST_CLIENTS: Final = 1_000_000  # of whom a graph takes ten seconds


@dataclass(frozen=True)
class RoundsRow:
    """The noise that a number of rounds needs for the same budget.

    `noise_per_client` is the standard deviation that each client adds to the sum of its clipped
    gradients, in clips.
    """

    rounds: int
    noise_multiplier: float
    noise_per_client: float


@dataclass(frozen=True)
class Guarantee:
    """What is proved of one used record (or, for FedAvg, one client) over a whole training.

    `training` holds R, q, z and k. `honest` is the number of noises that z counts.
    `success` bounds how often an attacker guesses the target among N equally likely candidates,
    by N; `decision` how often it decides rightly whether a record was used, if that is even
    beforehand; `person_of_one_more` is the bound at N = 100 if one more record is the same
    person's. `leakage` is the largest over all N.
    """

    training: Training
    level: Literal["record", "client"]
    transport: Transport
    clients: int
    threshold: int
    helpers: int
    honest: int
    budget: float
    success: dict[int, float]
    decision: float
    person_of_one_more: float
    leakage: float
    worst_candidates: int
    epsilon: float
    delta: float
    by_rounds: tuple[RoundsRow, ...]

    @property
    def noise_per_client(self) -> float:
        """The standard deviation of a client's noise over the clip: z/√honest.

        On the sum of its clipped gradients; on its mean over S, divide by S.
        """
        return self.training.noise_multiplier / math.sqrt(self.honest)


def usual_threshold(clients: int) -> int:
    """The fewest clients with which a round ends by default: more than two thirds.

    >>> [usual_threshold(clients) for clients in (1, 2, 10)]
    [1, 2, 7]
    """
    return min(clients, 2 * clients // 3 + 1)


def honest_noises(transport: Transport, clients: int, threshold: int, helpers: int) -> int:
    """How many noises of others hide a record: T - c - missing in a sum, one in single messages.

    c clients may help the attacker and take their own noise out of the sum. Where each client
    shares secrets with some only, c is the number that the graph is made for, and a lying server
    may keep `missing` honest ones out.

    >>> honest_noises("secret-sharing", 10, 7, 1), honest_noises("plain", 10, 7, 1)
    (6, 1)
    """
    if transport == "plain":
        return 1
    if transport == "secret-sharing" and clients > _MOST_CLIENTS:
        raise InvalidInput(
            f"secret sharing among {clients:,} clients is not laid out here, {_MOST_CLIENTS:,} at "
            "most are; give the clients that take part in one round."
        )
    graph = neighbourhood(clients, threshold, CORRUPT) if transport == "secret-sharing" else None
    missing = 0
    if graph is not None:
        covered = math.floor(CORRUPT * clients)
        if helpers > covered:
            raise InvalidInput(
                f"{clients} clients share secrets with some of the others only, which is safe "
                f"against {covered} helpers at most, got {helpers}; give fewer helpers, or "
                "smaller cohorts."
            )
        helpers, missing = covered, graph.missing
    honest = threshold - helpers - missing
    if honest < 1:
        raise InvalidInput(
            f"a round may end with {threshold} clients, of whom {helpers} may help the attacker, "
            f"which leaves {max(0, honest)} with honest noise; raise the threshold, or lower "
            "helpers."
        )
    return honest


def prove(
    *,
    clients: int,
    rounds: int,
    budget: float = 0.3,
    threshold: int | None = None,
    helpers: int = 1,
    transport: Transport = "secret-sharing",
    algorithm: Literal["fedsgd", "fedavg"] = "fedsgd",
    records: int | None = None,
    batch: int | None = None,
    participation: Participation = "known",
    person: int = 1,
) -> Guarantee:
    """The noise that keeps a budget over a training, and what that proves.

    Every round uses all records, unless a `batch` is drawn by Poisson sampling from the `records`
    of the smallest client; only then can `participation` be secret. `threshold` clients end a
    round (None: more than two thirds), `helpers` of them may help the attacker, and `person`
    records may belong to one person. With `algorithm` "fedavg" the whole update is clipped, and a
    whole client is hidden.
    """
    counted("clients", clients)
    counted("rounds", rounds)
    if transport not in _TRANSPORTS:
        raise InvalidInput(
            f"transport must be one of {', '.join(_TRANSPORTS)}, got {transport!r}."
        )
    least = usual_threshold(clients) if threshold is None else counted("threshold", threshold)
    if least > clients:
        raise InvalidInput(
            f"threshold must lie between 1 and the {clients} clients, got {threshold}."
        )
    if whole("helpers", helpers) < 0:
        raise InvalidInput(f"helpers must not be negative, got {helpers}.")
    if transport == "paillier" and helpers:
        raise InvalidInput(
            "with Paillier a client that helps the server holds the key and opens every single "
            "message; use secret-sharing, or give helpers = 0."
        )
    honest = honest_noises(transport, clients, least, helpers)
    q = _sampling_rate(algorithm, records, batch, participation)
    # One client's records are in its update together: nothing is gained by counting them.
    own = 1 if algorithm == "fedavg" else counted("person", person)
    z = noise_multiplier_for(
        budget, rounds=rounds, q=q, participation=participation, records_of_person=own
    )
    training = Training(rounds, q, z, participation, own)
    leakage, worst = leakage_supremum(training)
    more = replace(training, records_of_person=own + 1)
    return Guarantee(
        training=training,
        level="client" if algorithm == "fedavg" else "record",
        transport=transport,
        clients=clients,
        threshold=least,
        helpers=helpers,
        honest=honest,
        budget=budget,
        success={size: success_bound(training, size) for size in _CANDIDATES},
        decision=decision_bound(training),
        person_of_one_more=success_bound(more, 100),
        leakage=leakage,
        worst_candidates=worst,
        epsilon=epsilon(training, _DELTA),
        delta=_DELTA,
        by_rounds=_by_rounds(training, honest) if q == 1 else (),
    )


def _sampling_rate(
    algorithm: str, records: int | None, batch: int | None, participation: Participation
) -> float:
    """q, 1 for full batches."""
    if algorithm not in ("fedsgd", "fedavg"):
        raise InvalidInput(f"algorithm must be fedsgd or fedavg, got {algorithm!r}.")
    if batch is None:
        if participation == "secret":
            raise InvalidInput(
                "with full batches every round uses every record, so that participation cannot "
                "be secret; give batch and records for Poisson sampling."
            )
        return 1.0
    if algorithm == "fedavg":
        raise InvalidInput(
            f"for fedavg the whole client is hidden, whatever its batches; leave batch = {batch} "
            "out."
        )
    if records is None:
        raise InvalidInput(
            f"a batch of {batch} needs records, the number that the smallest client has."
        )
    if counted("batch", batch) > counted("records", records):
        raise InvalidInput(f"batch must not exceed the {records} records, got {batch}.")
    return batch / records


def _by_rounds(training: Training, honest: int) -> tuple[RoundsRow, ...]:
    """z ∝ √R with full batches: the same μ = √R k/z, and so the same success rates and ε."""
    share = training.noise_multiplier / math.sqrt(training.rounds)
    return tuple(
        RoundsRow(rounds, share * math.sqrt(rounds), share * math.sqrt(rounds / honest))
        for rounds in sorted({*_ROUNDS, training.rounds})
    )
