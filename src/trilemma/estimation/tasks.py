"""The two kinds of work that tuning spreads over processes: attack some units, train once.

A task is a value: its payload depends on the task and the settings of the run alone, so that it
can be journaled under the task's key and need never be done twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from trilemma.attacks import get
from trilemma.beliefs.recovery import psnr_matrix
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.recoveries import Outcomes, attack_units
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.units import Measurement, Source, Unit, draw_unit
from trilemma.federation.training import Exchange, History, Round, train
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.specs import parse_protection
from trilemma.protections.transcripts import Seconds

if TYPE_CHECKING:
    from trilemma.beliefs.recovery import Criterion

__all__ = [
    "AttackTask",
    "Bench",
    "Diverged",
    "Task",
    "TrainTask",
    "read_attack",
    "read_training",
]


class Diverged(InvalidInput):
    """A protection under which the federation could not be trained."""


@dataclass(frozen=True)
class AttackTask:
    """Attack units first .. first + count - 1 of a stream under one protection with one attack.

    A stream is a name: units of different streams share no data, no model and no draw. `pictures`
    of the first units' tagged records are kept besides, if the scenario shows records.
    """

    stream: str
    protection: str
    attack: str
    adversary: Adversary
    first: int
    count: int
    pictures: int = 0

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        seen = f"{self.protection} seen by the {self.adversary.value}"
        shown = f", {self.pictures} shown" if self.pictures else ""
        return f"{self.stream}: {self.attack} on {seen}, {self.count} units{shown}", self.first


@dataclass(frozen=True)
class TrainTask:
    """Train from a seed under a protection, to measure utility, bits and seconds."""

    protection: str
    seed: int
    rounds: int
    weighted: bool

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        equal = "" if self.weighted else ", equal weights"
        return f"train {self.rounds} rounds, {self.protection}{equal}", self.seed


Task = AttackTask | TrainTask


@dataclass(frozen=True)
class Bench:
    """Makes a worker's function: task -> payload."""

    source: Source
    criterion: Criterion
    restarts: int
    steps: int
    seed: int

    def __call__(self) -> Callable[[Task], bytes]:
        scenario = self.source if isinstance(self.source, Scenario) else self.source()
        secrets: dict[str, Any] = {}

        def work(task: Task) -> bytes:
            if isinstance(task, AttackTask):
                return _write(self._attack(scenario, task))
            return _write(_trained(scenario, task, secrets))

        return work

    def _attack(self, scenario: Scenario, task: AttackTask) -> dict[str, Any]:
        measurement = Measurement(
            attack=get(task.attack),
            protection=parse_protection(task.protection),
            adversary=task.adversary,
            restarts=self.restarts,
            steps=self.steps,
            seed=Seeded(self.seed).integer("stream", task.stream),
        )
        numbers = range(task.first, task.first + task.count)
        found = attack_units(scenario, measurement, self.criterion, numbers)
        counts = {
            "client": found.client.tolist(),
            "recovered": found.tagged().tolist(),
            "any": found.counted[:, 0].any(axis=1).tolist(),
            "failed": int(found.failed[:, 0].sum()),
        }
        if not task.pictures:
            return counts
        units = [draw_unit(scenario, measurement, number) for number in numbers[: task.pictures]]
        return counts | _pictures(scenario, units, found)


def _pictures(scenario: Scenario, units: Sequence[Unit], found: Outcomes) -> dict[str, Any]:
    """The units' tagged records and what was recovered of them, in levels 0 .. 255, and PSNR.

    Nothing unless the scenario allows to show records: then the outcomes hold no picture either.
    """
    spec = scenario.input_spec
    recovered = torch.from_numpy(found.pictures[: len(units), 0])
    if not scenario.show_records or len(recovered) < len(units):
        return {}
    originals = torch.stack([unit.records.inputs[0] for unit in units])
    # What diverged is shown black, and measured as it is shown.
    recovered = recovered.nan_to_num(nan=spec.low, posinf=spec.high, neginf=spec.low)
    psnr = psnr_matrix(recovered[:, None], originals[:, None], spec).flatten()

    def levels(inputs: torch.Tensor) -> list[list[int]]:
        share = (inputs.clamp(spec.low, spec.high) - spec.low) / (spec.high - spec.low)
        whole: list[list[int]] = (255 * share).round().int().flatten(1).tolist()
        return whole

    return {
        "originals": levels(originals),
        "recoveries": levels(recovered),
        "psnr": psnr.tolist(),
    }


def _trained(scenario: Scenario, task: TrainTask, secrets: dict[str, Any]) -> dict[str, Any]:
    protection = parse_protection(task.protection)
    if task.protection not in secrets:  # one key for all seeds, and its tables are made once
        secret = secrets[task.protection] = protection.transport.new_secret(System())
        if secret is not None:
            for key in (secret, secret.public):
                key.randomizers(1, System())
    try:
        history = train(
            scenario,
            protection,
            rounds=task.rounds,
            seed=task.seed,
            weights=fresh_weights(scenario, [task.seed])[0],
            weighted=task.weighted,
            server_lr=scenario.server_lr,
            evaluate_every=task.rounds,
            real_rounds=1,
            secret=secrets[task.protection],
        )
    except InvalidInput as error:
        if protection == Protection():
            raise
        return {"diverged": str(error)}  # a fact about the protection, not about the input
    return {
        "rounds": [asdict(each) for each in history.rounds],
        "client_metrics": history.client_metrics,
        "one_by_one": history.one_by_one,
    }


def read_attack(payload: bytes) -> dict[str, Any]:
    """What became of the units: client, recovered and any by unit, how many failed, pictures."""
    found: dict[str, Any] = json.loads(payload)
    return found


def read_training(payload: bytes) -> History:
    """The history of a training, without its weights; raises `Diverged` where there is none."""
    found = json.loads(payload)
    if "diverged" in found:
        raise Diverged(found["diverged"])
    rounds = []
    for each in found["rounds"]:
        exchange = each.pop("exchange")
        if exchange is not None:
            exchange = Exchange(
                tuple(exchange["bits_up"]),
                tuple(exchange["bits_down"]),
                Seconds(**exchange["seconds"]),
            )
        rounds.append(Round(**{**each, "clients": tuple(each["clients"])}, exchange=exchange))
    return History(
        tuple(rounds), torch.empty(0), tuple(found["client_metrics"]), found["one_by_one"]
    )


def _write(document: dict[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False).encode()
