"""A tuning played through in the head: which tasks it will ask for, if attacks do as expected.

The very procedures of a tuning run, and what they ask is answered at once by a rule: the leading
attack of a rung picks right as often as the budget allows at the strength where the search begins,
and the others less often. So the count of the work follows whatever the procedures do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from trilemma.attacks import get
from trilemma.entropy import Seeded
from trilemma.errors import TrilemmaError
from trilemma.estimation.jobs import AttackJob, BeliefJob, CostJob, Job, TrainJob, read_attack
from trilemma.estimation.playing.claims import checkpoints
from trilemma.federation.cohorts import drawn_cohort
from trilemma.federation.timing import RoundCosts, Spent
from trilemma.protections.specs import parse_protection
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.tuning.choosing.pictures import gallery_procedures
from trilemma.tuning.choosing.procedures import procedures
from trilemma.tuning.forecasting.forecast import Forecast
from trilemma.tuning.forecasting.kinds import amount_of, kind_of
from trilemma.tuning.telling import judged

if TYPE_CHECKING:
    from trilemma.tuning.forecasting.kinds import Kind
    from trilemma.tuning.plan import Plan
    from trilemma.work.replay import Procedure, Then

__all__ = ["beginnings", "expected_work", "forecast_of", "guess_of"]

_DECADES: Final = {"nothing": -3.0, "public": -2.0, "candidates": 0.0, "rest": 1.0}
_BEHIND: Final = 1.5  # decades by which attacks that do not lead are weaker
_BARE_SUM: Final = 0.9  # right picks from a sum without noise


def beginnings(plan: Plan) -> list[Procedure]:
    """The procedures with which every tuning by this plan begins, all of them at once."""
    return list(procedures(plan).values())


def expected_work(
    plan: Plan, *, pictures: bool = False, known: Mapping[tuple[str, int], bytes] | None = None
) -> Counter[Kind]:
    """Units of each kind that a tuning by this plan asks for, each task once.

    What is `known` is answered so, and the rest as it lets guess.
    """
    return _work(_Head(plan), pictures, known or {})


def forecast_of(
    plan: Plan,
    *,
    workers: int = 1,
    pictures: bool = False,
    speeds: Mapping[Kind, float] | None = None,
    known: Mapping[tuple[str, int], bytes] | None = None,
) -> Forecast:
    """How long a tuning by this plan takes, with seconds a unit that were measured before.

    It learns from what becomes `known`.
    """
    head = _Head(plan)

    def anew() -> Counter[Kind] | None:
        try:
            return _work(head, pictures, known or {})
        except TrilemmaError:  # of a course that is not taken: guesses may contradict each other
            return None

    work, there = _work(head, pictures, {}), plan.setting
    used = sum(there.unit_size / size for size in there.records) / len(there.records)
    share = used * there.clients / len(there.records)  # a game's client is any of them
    views = {each.rounds: each.rounds * share for each in work}
    return Forecast(
        *(work, views | {1: 1.0}),
        workers=workers,
        speeds=speeds,
        control=len(plan.suite.attacks),
        anew=None if known is None else anew,
    )


def guess_of(plan: Plan, known: Mapping[tuple[str, int], bytes]) -> Callable[[Job], bytes]:
    """What a task under way will probably answer.

    Attacks win as often as in the games of the same stream and protection that are `known`, and
    as imagined where there are none.
    """
    return _guess_of(_Head(plan), known)


def _guess_of(head: _Head, known: Mapping[tuple[str, int], bytes]) -> Callable[[Job], bytes]:
    read: set[tuple[str, int]] = set()
    won: Counter[tuple[str, str]] = Counter()  # by games alike and by attack
    games: Counter[tuple[str, str]] = Counter()

    def learn() -> None:
        for stage, chunk in known.keys() - read:
            read.add((stage, chunk))
            found = read_attack(known[stage, chunk]).get("correct", {})
            for name, right in found.items():
                won[_alike(stage), name] += sum(right)
                games[_alike(stage), name] += len(right)

    def rate(task: AttackJob, name: str) -> float:
        alike = _alike(task.key()[0]), name
        return won[alike] / games[alike] if games[alike] else head.rate(name, task)

    def guess(task: Job) -> bytes:
        if not isinstance(task, AttackJob):
            return head.payload(task)
        if len(known) > len(read):
            learn()
        wins = [round(rate(task, name) * task.count) for name in task.attacks]
        return head.played(task, [[n < each for n in range(task.count)] for each in wins])

    return guess


def _work(head: _Head, pictures: bool, known: Mapping[tuple[str, int], bytes]) -> Counter[Kind]:
    """Units of each kind, each task once."""
    plan, seen, work = head.plan, set[tuple[str, int]](), Counter[Any]()
    answer = _guess_of(head, known) if known else head.payload

    def ask(tasks: Sequence[Job]) -> list[bytes]:
        for task in tasks:
            if task.key() not in seen:
                seen.add(task.key())
                work[kind_of(task)] += amount_of(task)
        return [known.get(task.key()) or answer(task) for task in tasks]

    def done(some: Mapping[str, Procedure], /, **_: Then | None) -> dict[str, Any]:
        return {name: each(ask) for name, each in some.items()}

    judged(
        plan,
        done,
        along=(lambda choice: gallery_procedures(plan, choice.chosen)) if pictures else None,
    )
    return work


def _alike(stage: str) -> str:
    """A stage without the number of its games."""
    return stage.rpartition(", ")[0]


class _Head:
    """Imagines what tasks answer; it is asked again and again, and keeps what it has answered."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._noise = {
            each.carrier: each.warm for each in plan.families if each.mechanism is Randomization
        }
        thinned = (each.warm for each in plan.families if each.mechanism is Compression)
        self._kept = next(thinned, 1.0)
        self.payload = cache(self._payload)
        self._written, self._alone = cache(self._write), cache(self._rate)

    def _payload(self, task: Job) -> bytes:
        """What a task answers of which nothing is known."""
        if isinstance(task, AttackJob):
            return self.played(task, [self._right(task, name) for name in task.attacks])
        if isinstance(task, BeliefJob):
            nothing = [0.0] * task.count
            leakage = dict.fromkeys(task.attacks, nothing)
            return json.dumps({"client": [0] * task.count, "leakage": leakage}).encode()
        found = _timed(task) if isinstance(task, CostJob) else self._trained(task)
        return json.dumps(found).encode()

    def _right(self, task: AttackJob, attack: str) -> list[bool]:
        draw = Seeded(0).generator("imagined", task.stream, attack, task.first)
        rate = self.rate(attack, task)
        return [bool(each < rate) for each in draw.random(task.count)]

    def played(self, task: AttackJob, right: Sequence[Sequence[bool]]) -> bytes:
        """The payload of a task each of whose attacks wins these of its games."""
        return self._written(task.attacks, task.rounds, task.pictures, tuple(map(tuple, right)))

    def _write(
        self,
        attacks: tuple[str, ...],
        rounds: int,
        pictures: int,
        right: tuple[tuple[bool, ...], ...],
    ) -> bytes:
        scenario, found = self.plan.scenario, dict(zip(attacks, right, strict=True))
        row: list[Any] = [["", False]] * len(scenario.heads)
        grey = [row or [0] * scenario.input_spec.size] * pictures
        shown = {"made": grey, "picked": grey, "correct": [True] * pictures}
        after = {name: {str(t): each for t in checkpoints(rounds)} for name, each in found.items()}
        document = {
            "client": [0] * len(right[0]),
            "correct": found,
            "failed": dict.fromkeys(attacks, 0),
            "after": after,
            "pictures": {"tagged": grey, "attacks": dict.fromkeys(attacks, shown)},
        }
        return json.dumps(document).encode()

    def rate(self, attack: str, task: AttackJob) -> float:
        """How often an attack wins a task's games, at most as often as anyone can."""
        ceiling = self.plan.setting.ceiling(replace(self.plan.claim, rounds=task.rounds))
        return min(self._alone(attack, task.protection), ceiling)

    def _rate(self, attack: str, spec: str) -> float:
        """1 / (1 + d (1/p_max - 1)) at d times the strength where the search begins."""
        protection = parse_protection(spec)
        carried = protection.transport.server_reads != "messages"
        if not protection.transforms:
            return _BARE_SUM if carried else 1.0
        warm = self._noise.get("secret-sharing" if carried else "plain", 1.0)
        own, rung = get(attack).rung, self.plan.suite.rung
        behind = _DECADES[rung] - _DECADES[own]
        if own == rung and attack != self.plan.suite.lead:
            behind += _BEHIND
        times = 0.0
        for each in protection.transforms:
            if isinstance(each, Randomization):
                times += each.variance / warm
            elif isinstance(each, Compression) and isinstance(each.keep, float):
                times += (self._kept / each.keep) ** 2
        return 1 / (1 + times * 10**behind * (1 / self.plan.p_max - 1))

    def _trained(self, task: TrainJob) -> dict[str, Any]:
        """Of the rounds and cohorts of the real one, with which it may have to be compared."""
        scenario, draws = self.plan.scenario, Seeded(task.seed)
        everyone = len(scenario.records)
        metric = 0.9 + 1e-3 * float(draws.generator("imagined").random())
        rounds: list[dict[str, Any]] = [
            {
                "number": number,
                "clients": drawn_cohort(draws, everyone, scenario.per_round, number),
                "loss": None,
                "metric": None,
            }
            for number in range(task.rounds)
        ]
        rounds[-1] |= {"loss": 1.0, "metric": metric}
        return {
            "rounds": rounds,
            "client_metrics": [metric] * everyone,
            "one_by_one": None,
            "scores": None,
            "client_scores": [None] * everyone,
        }


def _timed(task: CostJob) -> dict[str, Any]:
    spent = (Spent(1e3, 1e3, 1e-3, 1e-4, 1e-4, 0.0),) * task.rounds
    return RoundCosts(spent, spent).as_json()
