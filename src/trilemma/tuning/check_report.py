"""What a tuning of a scenario will do and cannot do, and how long it takes here: in seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from trilemma.attacks import ATTACKS, get
from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.errors import InvalidInput
from trilemma.execution.pool import WorkerPool, one_thread
from trilemma.execution.work_seconds import spoken
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import Job
from trilemma.game.playing.suite import why_not
from trilemma.game.scenario import Scenario
from trilemma.learning import client_update
from trilemma.tuning.choice.choose import certain
from trilemma.tuning.families.proof_conditions import check_scenario
from trilemma.tuning.plan import Plan
from trilemma.tuning.possible_jobs import possible_jobs
from trilemma.tuning.presets import PRESETS
from trilemma.tuning.request import Request
from trilemma.tuning.time_left import Kind, Left, Remaining
from trilemma.tuning.unit_times import FIRST, Timed, timed

if TYPE_CHECKING:
    from trilemma.attacks import KnowledgeLevel
    from trilemma.game.scenario import Source
    from trilemma.tuning.presets import Preset

__all__ = ["Examined", "Suited", "examine"]

_SLOW_S: Final = 10.0  # for the updates of one round: nothing is timed in reasonable time
_TRIES: Final = 4  # the first is slow, others may be held up
_TRAININGS: Final = 60  # before there is an answer, about
_MOST: Final = 2  # kinds of the leading attack's games, of which there are more than of others
_OF_KINDS: Final = ("dager", "tableak", "tokens")  # not missed where records are of another kind


@dataclass(frozen=True)
class Suited:
    """An attack that will be made, and the seconds of a game against one round, where known."""

    name: str
    knows: KnowledgeLevel
    seconds: float | None


@dataclass(frozen=True)
class Examined:
    """A scenario, looked at: its plan, its attacks, what is left out and why, and the seconds.

    `work` are the CPU seconds of a tuning as asked for and of a quick one, by their commands, at
    least and usually at most, without what took too long to be timed; `answers` those of what is
    proved, where anything is. Processes share them; each takes those that are spent `once`
    besides. `wall` and `cpu` are the seconds that were spent to find that out.
    """

    plan: Plan
    attacks: tuple[Suited, ...]
    left_out: tuple[tuple[str, str], ...]
    work: Mapping[str, Left]
    once: float
    answers: Mapping[str, Left] = field(default_factory=dict)
    wall: float = 0.0
    cpu: float = 0.0

    def seconds(self, command: str, workers: int = 1, *, answer: bool = False) -> Left:
        """How long a command takes with so many processes, all of it or until its `answer`.

        Once there is an answer, attacks end when the request's minutes are over by the clock.
        """
        least, most, not_timed = (self.answers if answer else self.work)[command]
        found = Left(self.once + least / workers, self.once + most / workers, not_timed)
        limit = self.plan.request.minutes
        if answer or limit is None or command not in self.answers:
            return found
        slower = max(1.0, self.wall / self.cpu) if self.cpu else 1.0
        end = max(60 * limit / slower, self.seconds(command, workers, answer=True).most)
        return Left(min(found.least, end), min(found.most, end), not_timed)

    def as_json(self) -> dict[str, Any]:
        """What is asked, what is attacked and what not, and CPU seconds, as plain values."""
        plan, claim = self.plan, self.plan.claim
        return {
            **asdict(plan.federation),
            "rounds": claim.rounds,
            "knows": plan.request.knows,
            "candidates": claim.candidates,
            "budget": plan.request.budget,
            "largest_success_rate": plan.p_max,
            "families": [family.name for family in plan.families],
            "attacks": [asdict(attack) for attack in self.attacks],
            "left_out": [{"what": what, "why": why} for what, why in self.left_out],
            "cpu_seconds": {name: self.seconds(name)._asdict() for name in self.work},
        }


def examine(source: Source, request: Request, tell: Callable[[str], None]) -> Examined:
    """Look at a scenario, and time a few games of each attack; `tell` hears what is being done."""
    job_runner = JobRunner(source, None, 1, request.steps, request.seed)
    begun = time.monotonic()
    with WorkerPool[Job](job_runner, workers=2) as pool:  # two: one would work in this process
        pool.submit(FIRST)  # reads the data meanwhile
        scenario = source if isinstance(source, Scenario) else source()
        _require_speed(scenario)
        plan = Plan.of(scenario, request)
        planned = time.monotonic() - begun
        plans = {_command(request.preset): plan}
        if _command("quick") not in plans:
            plans[_command("quick")] = Plan.of(scenario, _quick(request))
        found = timed(pool, plan, *_kinds(list(plans.values())), tell)
    work, answers = dict[str, Left](), dict[str, Left]()
    for command, item in plans.items():
        possible, first = possible_jobs(item), certain(item)
        proved = {name: jobs for name, jobs in possible.items() if name in first}
        for kept, jobs in ((work, possible), (answers, proved)):
            timing, share = _with_starts(found, item), item.setting.share(item.claim.rounds)
            left = Remaining(jobs, share=share, seconds=timing).left() if jobs else None
            if left is not None:
                kept[command] = left
    for kept in (work, answers):
        _order(kept)
    return Examined(
        plan,
        tuple(_suited(name, found, plan) for name in plan.suite.attacks),
        tuple(_left_out(plan)),
        work,
        planned + found.once,
        answers,
        found.wall,
        found.cpu,
    )


def _order(work: dict[str, Left]) -> None:
    """A quick tuning takes no longer than the whole, of which it does a part."""
    quick, whole = work.get(_command("quick")), work.get(_command("usual"))
    if quick is not None and whole is not None:
        least, most = min(quick.least, whole.least), min(quick.most, whole.most)
        work[_command("quick")] = Left(least, most, quick.not_timed)


def _command(preset: Preset) -> str:
    return "tune" if preset == "usual" else f"tune --{preset}"


def _quick(request: Request) -> Request:
    """The same with --quick: what was given by name stays, what the preset gave does not."""
    own = PRESETS[request.preset]
    given = {name: getattr(request, name) for name in request.model_fields_set - {"preset"}}
    asked = {name: value for name, value in given.items() if value != own.get(name)}
    return Request(**asked, preset="quick")


def _require_speed(scenario: Scenario) -> None:
    """Refuse a model of which even the plan takes minutes, by the quickest of a few updates."""
    records, training = scenario.records[0], scenario.local_training
    rows = torch.arange(training.unit_size) % len(records)
    weights = scenario.task.layout.flatten(dict(scenario.task.model.named_parameters())).detach()
    batch = (records.inputs[rows].to(weights.device), records.labels[rows].to(weights.device))
    taken = []
    with one_thread():  # as tuning does it
        for _ in range(_TRIES):
            start = time.monotonic()
            client_update(scenario.task, weights, *batch, training)
            taken.append((time.monotonic() - start) * scenario.per_round)
            if taken[-1] < _SLOW_S:
                return
    seconds, rounds = min(taken), scenario.rounds
    raise InvalidInput(
        f"a round's updates of this model take {spoken(seconds)} here, so that an answer, which "
        f"needs some {_TRAININGS} trainings of {rounds} rounds, would take about "
        f"{spoken(_TRAININGS * rounds * seconds)}; give the Scenario a GPU (device='cuda'), or "
        f"measure a smaller model of the same kind."
    )


def _kinds(plans: Sequence[Plan]) -> tuple[list[Kind], list[Kind]]:
    """What is timed: a training, every attack on a single message, and most of what leads.

    Then what leads on all else, the most frequent first, as there may be no time for all.
    """
    work = Counter[Kind]()
    for plan in plans:
        for kinds in possible_jobs(plan).values():
            work.update({kind: count.most for kind, count in kinds.items()})
    names = dict.fromkeys(name for item in plans for name in item.suite.attacks)
    single = [Kind("games", (name,), 1, "plain") for name in names]
    leads = {(item.suite.lead,) for item in plans}
    led = [item for item in work if item.what == "games" and item.attacks in leads]
    most = sorted((k for k in led if k.carrier != "paillier"), key=lambda kind: -work[kind])
    of = {what: [item for item in work if item.what == what] for what in ("trainings", "timings")}
    return [*of["trainings"], *single, *most[:_MOST]], [*most[_MOST:], *of["timings"]]


def _with_starts(found: Timed, plan: Plan) -> dict[Kind, float]:
    """Seconds with all the starts of a plan: attacks that search take them one by one."""

    def starts(name: str) -> float:
        attack = get(name)
        asked = plan.job_runner.starts(attack) if attack.knows in KNOWLEDGE_LEVELS[:2] else 1
        least, most = getattr(attack, "starts", 1), getattr(attack, "most_starts", asked)
        return max(least, min(asked, most)) / least

    return {
        kind: seconds * max((starts(name) for name in kind.attacks), default=1.0)
        for kind, seconds in found.seconds.items()
        if kind not in found.stopped
    }


def _suited(name: str, found: Timed, plan: Plan) -> Suited:
    kind = Kind("games", (name,), 1, "plain")
    seconds = None if kind in found.stopped else _with_starts(found, plan)[kind]
    return Suited(name, get(name).knows, seconds)


def _left_out(plan: Plan) -> Iterator[tuple[str, str]]:
    scenario = plan.scenario
    if plan.request.attacks is None:
        knowledge_levels = KNOWLEDGE_LEVELS[: KNOWLEDGE_LEVELS.index(plan.suite.knows) + 1]
        names = [
            name
            for name in ATTACKS
            if get(name).knows in knowledge_levels and name not in _OF_KINDS
        ]
        yield from _by_reason({name: why_not(scenario, name) for name in names})
    if plan.setting.clients < 2:
        yield (
            "secret sharing, Paillier",
            "they hide an update in the sum of several clients, and a round has one.",
        )
    if plan.claim.inserted:
        yield (
            "candidate sets of a client's own records",
            f"with {min(plan.setting.records)} records a client has too few.",
        )
    if not scenario.show_records:
        yield (
            "pictures of records",
            "the scenario does not set show_records; right for data that is not public.",
        )
    try:
        check_scenario(scenario, by_record=True)
    except InvalidInput as error:
        yield "a proof (--knows anyone)", str(error)
    if scenario.classes is None and scenario.metric is None:
        other = "minus the loss is measured instead, or what Scenario(metric=...) says"
        yield "accuracy", f"the labels are no classes: {other}."


def _by_reason(why: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Attacks that one reason leaves out, together: "dlg, map" and "each searches ..."."""
    alike: dict[str, list[str]] = {}
    for name, reason in why.items():
        if reason is not None:
            alike.setdefault(reason.removeprefix(name), []).append(name)
    for reason, names in alike.items():
        who = "" if reason[0] != " " else "it" if len(names) == 1 else "each"
        yield ", ".join(names), f"{who}{reason}."
