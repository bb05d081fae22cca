"""What a federation runs, as far as a claim on its leakage depends on it.

A verdict holds the deployment that was attacked, and a federation states its own: a claim holds
where the two are equal in every field.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Literal

from trilemma.accounting.sampled_training import Participation
from trilemma.errors import InvalidInput
from trilemma.federation.server_parts import Origin, PublicRecords, WarmStart, check_share
from trilemma.learning import LocalTraining
from trilemma.quantities import counted, one_of, positive, whole

__all__ = ["Deployment", "ServerTraining", "Weighting", "room_for"]

Weighting = Literal["equal", "records"]

_WAY_OUT: Final = {
    "local_training": "train as was measured, or measure again for what this federation runs",
    "parameters": "deploy the model that was measured, or measure again for this one",
    "clients": "measure again with as many clients",
    "cohort": "let as many clients take part in a round, or measure again",
    "threshold": "set the threshold that was measured, or measure again with this one",
    "weighting": "weight the clients as was measured, or measure again",
    "rounds": "run the rounds that were measured, or measure again for these",
    "sampling_rate": "draw the share of records that was measured, or measure again",
    "participation": "claim what was measured, or measure again",
    "helpers": "assume what was measured, or measure again",
    "server": "leave it out, as the server that was measured is taken, or measure again",
    "total_records": "state all records of a round's clients, within that bound, or measure again",
}


@dataclass(frozen=True)
class ServerTraining:
    """How the server moves the model: w ← w - step · v, the step falling to zero with `decay`.

    v ← momentum · v + u, and u is the mean of the clients' updates: gradients under FedSGD,
    changes of weights under FedAvg, where a step of 1 is plain averaging. With `public_weight` a
    it is (1 - a) · mean + a · ∇, ∇ the mean gradient of the server's `public` records, clipped one
    by one as the clients' are. A `warm_start` comes before the first round. With `averaging` d the
    trained model is w̄ ← d · w̄ + (1 - d) · w. Layers of `centring` are affine in what they read
    less an origin: clients' updates, their clip and their noise are those of (W, b + W m).
    """

    step: float
    decay: bool = False
    momentum: float = 0.0
    averaging: float = 0.0
    warm_start: WarmStart | None = None
    public_weight: float = 0.0
    public: PublicRecords | None = None
    centring: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", positive("step (of the server)", self.step))
        if not isinstance(self.decay, bool):
            raise InvalidInput(f"decay must be True or False, got {self.decay!r}.")
        for name in ("momentum", "averaging", "public_weight"):
            check_share(f"{name} (of the server)", getattr(self, name))
        if self.needs_public and self.public is None:
            raise InvalidInput(
                "a server that starts or steps by public records must say which; give "
                "public=PublicRecords.of(records, key)."
            )

    @property
    def needs_public(self) -> bool:
        """Whether it computes on public records."""
        return self.warm_start is not None or self.public_weight > 0

    @property
    def steps_alone(self) -> bool:
        """Whether a step is all there is, which needs no memory, no records and no origin."""
        return self == ServerTraining(self.step, self.decay)

    def step_in(self, round: int, rounds: int) -> float:
        """The step in a round (0, 1, ...) of so many: constant, or falling linearly to zero.

        >>> [ServerTraining(8.0, decay=True).step_in(round, 4) for round in range(5)]
        [8.0, 6.0, 4.0, 2.0, 0.0]
        """
        return self.step * max(0.0, 1 - round / rounds) if self.decay else self.step


def room_for(records: int) -> int:
    """A cap on the records of a deployment's clients: a quarter more than took part in tuning."""
    return -(-5 * records // 4)


@dataclass(frozen=True)
class Deployment:
    """The setting of a claim, each number a bound that the nodes keep.

    `parameters` is the size of an update; `cohort` of `clients` take part in a round, which ends
    with at least `threshold` of them; a sum weighs clients equally, or by their number of records.
    A node's data take part in `rounds` rounds at most. `sampling_rate` is the largest share
    S / n of its n records that a client draws (for each step under Poisson sampling, else for an
    update); `participation` says whether an attacker knows which rounds drew the record, and
    `helpers` how many clients at most share what they know with it. `server` is how the server
    trains (None: as its strategy does), `total_records` how many all clients of
    a round hold together at most, where they weigh by that (None: not bounded).

    >>> measured = Deployment(LocalTraining(batch=4), 4810, clients=10, cohort=10, threshold=7)
    >>> measured.mismatches(measured)
    []
    """

    local_training: LocalTraining
    parameters: int
    clients: int
    cohort: int
    threshold: int
    weighting: Weighting = "equal"
    rounds: int = 1
    sampling_rate: float = 1.0
    participation: Participation = "known"
    helpers: int = 0
    server: ServerTraining | None = None
    total_records: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.local_training, LocalTraining):
            raise InvalidInput(
                f"local_training must be a LocalTraining, got {self.local_training!r}."
            )
        for name in ("parameters", "clients", "cohort", "threshold", "rounds", "total_records"):
            if name != "total_records" or self.total_records is not None:
                object.__setattr__(self, name, counted(name, getattr(self, name)))
        object.__setattr__(self, "helpers", whole("helpers", self.helpers))
        if self.server is not None:
            _check_server(self.server, self.local_training)
        rate = positive(
            "sampling_rate (share of its records that a client draws)", self.sampling_rate
        )
        if rate > 1:
            raise InvalidInput(f"sampling_rate must be at most 1, got {rate}.")
        object.__setattr__(self, "sampling_rate", rate)
        one_of("weighting", self.weighting, ("equal", "records"))
        one_of("participation", self.participation, ("secret", "known"))
        self._check_round()

    def _check_round(self) -> None:
        """Raises where the numbers of clients, or what is secret, contradict each other."""
        if not self.threshold <= self.cohort <= self.clients:
            raise InvalidInput(
                f"threshold ({self.threshold}), cohort ({self.cohort}) and clients "
                f"({self.clients}) must rise: a round has a cohort of the clients, and ends with "
                "the threshold at least."
            )
        if self.helpers < 0:
            raise InvalidInput(f"helpers must be at least 0, got {self.helpers}.")
        if self.helpers >= self.threshold and self.threshold > 1:
            raise InvalidInput(
                f"helpers must leave an honest client of the {self.threshold} that a round ends "
                f"with at least, got {self.helpers}."
            )
        if self.participation == "secret" and self.local_training.participation == "known":
            raise InvalidInput(
                f"participation is a secret under Poisson sampling only, and local_training has "
                f"sampling={self.local_training.sampling!r}; use sampling='poisson', or "
                "participation='known'."
            )

    def mismatches(self, other: Deployment) -> list[str]:
        """One sentence for each field in which this, as measured, differs from another, as run.

        Another without a `server` states none of its own, and `total_records` may be fewer.

        >>> measured = Deployment(LocalTraining(), 10, 3, 3, 2, rounds=150)
        >>> measured.mismatches(Deployment(LocalTraining(), 10, 3, 3, 2, rounds=200))[0][:51]
        'rounds was 150 when measured and is 200 here; run t'
        """
        sentences = []
        for name in (field.name for field in fields(self)):
            pairs = {name: (getattr(self, name), getattr(other, name))}
            if all(map(is_dataclass, pairs[name])):
                pairs = {
                    f"{name}.{part.name}": tuple(getattr(pair, part.name) for pair in pairs[name])
                    for part in fields(pairs[name][0])
                }
            sentences += [
                f"{what} was {measured!r} when measured and is {own!r} here; {_WAY_OUT[name]}."
                for what, (measured, own) in pairs.items()
                if not _fits(what, measured, own)
            ]
        return sentences


def _check_server(server: ServerTraining, training: LocalTraining) -> None:
    if not isinstance(server, ServerTraining):
        raise InvalidInput(f"server must be a ServerTraining, got {server!r}.")
    if server.public_weight and training.algorithm != "fedsgd":
        raise InvalidInput(
            f"public_weight={server.public_weight:g} mixes gradients, but fedavg sends changes of "
            "weights; use algorithm='fedsgd', or leave it out."
        )
    if server.centring and not (training.algorithm == "fedsgd" and training.by_record):
        raise InvalidInput(
            "centring is for gradients of single records, which local_update makes; give the "
            "local training algorithm='fedsgd' and a record_clip, or leave it out."
        )


def _fits(name: str, measured: Any, own: Any) -> bool:
    if name == "total_records":  # a cap on what is there, not what is there
        return measured is None or (own is not None and own <= measured)
    if name == "server" and own is None:  # a federation takes the one that was measured
        return True
    if isinstance(measured, float) and isinstance(own, float):
        return math.isclose(measured, own, rel_tol=1e-9)  # 4 / 150, written out
    return bool(measured == own)
