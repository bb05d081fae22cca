"""What a round takes, in bits and seconds, beside an unprotected round of the same clients.

Both rounds carry the same updates, one after the other in one process, so that what else the
machine does meets both alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.execution.work_seconds import work_seconds
from trilemma.federation.cohorts import Cohorts, Federated, pooled
from trilemma.federation.round import Answers, Rounds
from trilemma.federation.training import start_weights
from trilemma.protection.protection import Protection
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.wire import SERVER
from trilemma.quantities import counted

if TYPE_CHECKING:
    import torch

    from trilemma.federation.recipe import Recipe
    from trilemma.protection.transcripts import RoundResult

__all__ = ["RoundCosts", "Spent", "round_costs"]


@dataclass(frozen=True)
class Spent:
    """What a round takes a client: bits both ways, and seconds of each part of it.

    Seconds are CPU time, on a GPU device time. Clients work at once, so that a part lasts the
    mean over them; the server's `combine` counts in full.
    """

    bits_up: float
    bits_down: float
    train: float
    protect: float
    combine: float
    finish: float

    @property
    def bits(self) -> float:
        """Bits up and down."""
        return self.bits_up + self.bits_down

    @property
    def client_seconds(self) -> float:
        """Seconds of one client: training, protecting its update, opening the sum."""
        return self.train + self.protect + self.finish

    @property
    def server_seconds(self) -> float:
        """Seconds of the server."""
        return self.combine

    @property
    def seconds(self) -> float:
        """Seconds of all parts, without the transfer."""
        return self.client_seconds + self.server_seconds

    def duration(self, bandwidth: float) -> float:
        """Seconds + bits / bandwidth."""
        return self.seconds + self.bits / bandwidth

    def scaled(self, times: float) -> Spent:
        """The same for an update so many times as long, by as much training."""
        return replace(Spent(*(times * item for item in astuple(self))), train=self.train)

    @classmethod
    def median(cls, rounds: Sequence[Spent]) -> Spent:
        """The median of each part."""
        return cls(*(median(column) for column in zip(*map(astuple, rounds), strict=True)))


@dataclass(frozen=True)
class RoundCosts:
    """Pairs of rounds that carried the same updates, without and with protection."""

    without: tuple[Spent, ...]
    within: tuple[Spent, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.without) == len(self.within):
            raise InvalidInput(
                f"rounds are compared in pairs, got {len(self.without)} without and "
                f"{len(self.within)} with protection."
            )

    @property
    def unprotected(self) -> Spent:
        """Medians over the unprotected rounds."""
        return Spent.median(self.without)

    @property
    def protected(self) -> Spent:
        """Medians over the protected rounds."""
        return Spent.median(self.within)

    def as_json(self) -> dict[str, list[list[float]]]:
        """The same as plain values."""
        return {
            "without": [list(astuple(item)) for item in self.without],
            "within": [list(astuple(item)) for item in self.within],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RoundCosts:
        """What `as_json` gave."""
        sides = ((Spent(*item) for item in document[name]) for name in ("without", "within"))
        return cls(*(tuple(side) for side in sides))


def round_costs(
    federated: Federated,
    protection: Protection,
    recipe: Recipe,
    *,
    rounds: int = 6,
    clients_per_round: int | None = None,
) -> RoundCosts:
    """Run `rounds` pairs of a recipe's real rounds at the model's weights, after a first.

    Each client trains by itself, as on a machine of its own, once for both rounds of a pair. Where
    clients may pin identities they do, unless the threshold is too low for that. Ciphertexts are
    alike and independent, so that of a long update a part is encrypted and stands for all.
    """
    counted("rounds", rounds)
    everyone = len(federated.records)
    size = clients_per_round or everyone
    cohorts, threshold = Cohorts(federated, recipe, size, 0, "costs"), recipe.threshold
    weights, pool = start_weights(federated, None)[0], pooled(federated)
    arms = {
        name: Rounds(federated.task, recipe.local_training, pool, arm)
        for name, arm in (("without", Protection()), ("within", protection))
    }
    secrets = {"without": None, "within": protection.transport.new_secret(System())}
    high = threshold is None or 3 * threshold > 2 * size
    if protection.transport.brings == "identity" and high:
        secrets["within"] = Identity.pinned(range(everyone), System())
    pairs: list[dict[str, Spent]] = []
    for number in range(rounds + 1):
        answers = cohorts.sample(number)
        clients = answers.info.participants
        start = work_seconds(weights.device)
        alone = arms["without"].sending.alone
        updates = [alone(weights, *cohorts.rows(number, [client])) for client in clients]
        local = (work_seconds(weights.device) - start) / len(clients)
        order = sorted(arms, reverse=bool(number % 2))  # neither is always the second
        pairs.append(
            {name: _timed(arms[name], updates, answers, secrets[name], local) for name in order}
        )
    # The local work is the same with and without protection, and in all rounds.
    local = median(pair["without"].train for pair in pairs[1:])
    without, within = (
        tuple(replace(pair[name], train=local) for pair in pairs[1:]) for name in arms
    )
    return RoundCosts(without, without if protection == Protection() else within)


def _timed(
    arm: Rounds, updates: Sequence[torch.Tensor], answers: Answers, secret: Any, local: float
) -> Spent:
    """What one real round takes, in which clients have trained for `local` seconds."""
    length, clients = updates[0].numel(), answers.info.participants
    part = arm.protection.timed_on(length)
    some = [update[:part] for update in updates]
    # Where every client opens the sum, one of them tells what that takes.
    opened_by_all = arm.protection.transport.server_reads == "nothing"
    quiet = dict.fromkeys(clients[1:], 1) if opened_by_all else None
    result = arm.exchanged(some, answers, secret=secret, drops=quiet)
    return _spent(result, clients, local).scaled(length / part)


def _spent(result: RoundResult, clients: Sequence[int], train: float) -> Spent:
    up: Counter[int] = Counter()
    down: Counter[int] = Counter()
    for message in result.transcript.messages:
        if message.sender == SERVER:
            down[message.receiver] += 8 * len(message.body)
        else:
            up[message.sender] += 8 * len(message.body)
    seconds = result.seconds
    return Spent(
        fmean(up[client] for client in clients),
        fmean(down[client] for client in clients),
        train,
        seconds.protect,
        seconds.combine,
        seconds.finish,
    )
