"""Tasks by what they cost: an attack over so many rounds, a training, the timing of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilemma.estimation.jobs import AttackJob, BeliefJob, CostJob, Job, TrainJob

__all__ = ["Kind", "amount_of", "kind_of"]


@dataclass(frozen=True)
class Kind:
    """Tasks whose units cost about the same.

    A unit is a game of `attacks` over `rounds`, a game whose belief is averaged over draws, a
    training of `rounds`, or a pair of timed rounds. `carrier` hides single messages.
    """

    what: Literal["games", "beliefs", "trainings", "timings"]
    attacks: tuple[str, ...]
    rounds: int
    carrier: Literal["plain", "secret-sharing", "paillier"]


def kind_of(task: Job) -> Kind:
    """The kind of a task."""
    carrier: Literal["plain", "secret-sharing", "paillier"] = "plain"
    if "secret-sharing" in task.protection:
        carrier = "secret-sharing"
    elif "paillier" in task.protection:
        carrier = "paillier"
    if isinstance(task, AttackJob):
        return Kind("games", task.attacks, task.rounds, carrier)
    if isinstance(task, BeliefJob):
        return Kind("beliefs", task.attacks, task.rounds, carrier)
    if isinstance(task, TrainJob):
        return Kind("trainings", (), task.rounds, "plain")
    return Kind("timings", (), 1, carrier)


def amount_of(task: Job) -> int:
    """How many units of its kind a task has."""
    if isinstance(task, AttackJob):
        return task.count
    if isinstance(task, BeliefJob):
        return task.count * task.draws
    return task.rounds if isinstance(task, CostJob) else 1
