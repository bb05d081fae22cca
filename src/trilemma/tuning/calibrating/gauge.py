"""Basis "measured": calibrate each family against the binding suite, on fresh units.

A unit counts as recovered if ANY binding attack recovers the record that was tagged before the
attack. Several families are calibrated at level α/M each,
so that the best of them may be chosen afterwards.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.beliefs.intervals import clopper_pearson_upper, zero_success_size
from trilemma.errors import TrilemmaError
from trilemma.estimation.tasks import AttackTask, read_attack
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.calibrating.acceptance import sequential_test
from trilemma.tuning.calibrating.calibration import calibrate
from trilemma.tuning.calibrating.outcomes import (
    UNPROTECTED,
    AttackUnits,
    Calibration,
    Control,
    Outcome,
    TestedStrength,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.estimation.suite import Suite
    from trilemma.tuning.choosing.families import Family
    from trilemma.work.replay import Ask

__all__ = ["AttackFailed", "Counts", "Gauge", "Measured", "streams"]

CHUNK: Final = 16  # units of one task: what kill -9 may cost, and enough for a batched attack
_CONTROL_UNITS: Final = 24
_WORKING_RATE: Final = 0.1
_SEPARATION: Final = 0.8  # of the rate that a test of a single strength should pass, in probits


class AttackFailed(TrilemmaError):
    """The attacks do not recover unprotected records either, so nothing can be measured."""


@dataclass(frozen=True)
class Counts:
    """Units attacked and recovered: overall, by client (units, hits), and by attack alone."""

    units: int
    successes: int
    any_record: int
    by_client: dict[int, tuple[int, int]]
    by_attack: dict[str, int]
    failed: int


@dataclass(frozen=True)
class Measured:
    """How a family fared: its calibration, and the counts of the test that it rests on.

    Of a bare sum the counts are there whether or not they keep the budget.
    """

    calibration: Calibration
    counts: Counts | None
    note: str = ""


@dataclass(frozen=True)
class _Seen:
    """What became of the units of one request."""

    x: float
    stage: str
    client: NDArray[np.int64]
    recovered: NDArray[np.bool_]
    any_record: NDArray[np.bool_]
    by_attack: dict[str, int]
    failed: int


@dataclass
class Gauge:
    """Attacks units for procedures: what they ask is turned into tasks, and tasks into counts."""

    ask: Ask
    suite: Suite
    adversary: Adversary
    clients: int
    p_max: float
    level: float
    log: list[_Seen] = field(default_factory=list)

    def count(
        self,
        stream: str,
        protection: Protection,
        units: int,
        *,
        attacks: Sequence[str] | None = None,
        adversary: Adversary | None = None,
        chunk: int = CHUNK,
        pictures: int = 0,
    ) -> Counts:
        """Attack that many units of a stream from its first, `chunk` of them a task."""
        seen = self._attack(
            *(stream, UNPROTECTED, protection, 0, units, ""),
            attacks=attacks,
            adversary=adversary,
            chunk=chunk,
            pictures=pictures,
        )
        return _counts([seen])

    def control(self) -> Counts:
        """The unprotected attack by the server; refuses to go on where it recovers nothing."""
        units = math.ceil(_CONTROL_UNITS / self.clients) * self.clients
        found = self.count("control", Protection(), units, adversary=Adversary.SERVER)
        if found.successes < _WORKING_RATE * found.units:
            raise AttackFailed(
                f"the attacks ({', '.join(self.suite.binding)}) recovered {found.successes} of "
                f"{found.units} unprotected records, so their failure under protection would show "
                f"nothing; give them more restarts, name others, or use a smaller batch."
            )
        return found

    def measure(self, family: Family) -> Measured:
        """The weakest strength of a family that is shown to keep the budget."""
        control = self.control()
        if family.seen == "message" and family.knob != "bound":
            return self._calibrated(
                family, Control(control.successes, control.units), unprotected=True
            )
        if family.seen == "sum":
            bare = self._bare_sum()
            if family.knob is None:
                return bare
            if bare.calibration.outcome is Outcome.CERTIFIED:
                note = "Not needed: secret sharing alone is within the budget."
                return Measured(bare.calibration, bare.counts, note)
            tested = bare.calibration.points[-1]
            # The attack works, as the control shows; a sum that hides most of the records is no
            # reason to doubt that.
            hits = max(tested.successes, math.ceil(_WORKING_RATE * tested.units))
            return self._calibrated(family, Control(hits, tested.units), unprotected=False)
        start = Control(control.successes, control.units)
        if self.clients == 1:
            return self._calibrated(family, start, unprotected=False)
        bare = self._bare_sum()
        if bare.calibration.outcome is not Outcome.CERTIFIED:
            note = "The masks cancel in the sum, which the server reads too, at any bound."
            return Measured(bare.calibration, None, note)
        found = self._calibrated(family, start, unprotected=False)
        note = "Messages are counted here; the sum, where masks cancel, as for secret-sharing."
        return Measured(found.calibration, found.counts, note)

    def _calibrated(self, family: Family, control: Control, *, unprotected: bool) -> Measured:
        self.log.clear()
        found = calibrate(
            self._units(family),
            self.p_max,
            alpha=self.level,
            domain=family.domain,
            control=control,
            unprotected=unprotected,
        )
        return Measured(found, self._counts_at(found))

    def _bare_sum(self) -> Measured:
        """Test the one strength there is where only the sum is seen and nothing is added to it."""
        self.log.clear()
        test = sequential_test(
            self.p_max,
            self.level,
            _SEPARATION,
            max(6 * zero_success_size(self.p_max, self.level), 200),
        )
        shown = Protection(transport=SecretSharing())
        if self.adversary is Adversary.CLIENT:
            shown = Protection()
        units = successes = look = 0
        decision = None
        while decision is None:
            step = test.looks[look] - units
            seen = self._attack("none of the sum", UNPROTECTED, shown, units, step, "walk")
            units, successes = test.looks[look], successes + int(seen.recovered.sum())
            decision = test.decide(look, successes)
            look += 1
        passed = decision == "pass"
        point = TestedStrength(
            UNPROTECTED, units, successes, "walk", test.level, test.accept[look - 1], passed
        )
        if passed:
            reason = (
                f"{successes} of {units} fresh units were recovered from the sum of all clients, "
                f"which shows a success rate of at most {self.p_max:.4g}."
            )
        else:
            reason = (
                f"{successes} of {units} units were recovered from the sum of all clients, too "
                f"many for a success rate of {self.p_max:.4g}."
            )
        found = Calibration(
            Outcome.CERTIFIED if passed else Outcome.NOT_CERTIFIED,
            self.p_max,
            self.level,
            UNPROTECTED if passed else None,
            (point,),
            units,
            reason,
            pointwise_interval=point.pointwise_interval if passed else None,
            smallest_upper_limit=clopper_pearson_upper(successes, units, 1 - self.level),
        )
        return Measured(found, _counts(self.log))

    def _units(self, family: Family) -> AttackUnits:
        stream = stream_of(family)

        def attack(x: float, count: int, stage: str, first_unit: int) -> NDArray[np.bool_]:
            shown = family.attacked(x, self.adversary)
            return self._attack(stream, x, shown, first_unit, count, stage).recovered

        return attack

    def _attack(
        self,
        stream: str,
        x: float,
        protection: Protection,
        first: int,
        count: int,
        stage: str,
        *,
        attacks: Sequence[str] | None = None,
        adversary: Adversary | None = None,
        chunk: int = CHUNK,
        pictures: int = 0,
    ) -> _Seen:
        names = self.suite.binding if attacks is None else attacks
        pieces = [
            (start, min(chunk, first + count - start), pictures if start == 0 else 0)
            for start in range(first, first + count, chunk)
        ]
        spec, who = protection.describe(), adversary or self.adversary
        tasks = [AttackTask(stream, spec, name, who, *piece) for name in names for piece in pieces]
        payloads = [read_attack(payload) for payload in self.ask(tasks)]
        parts = {
            name: payloads[place * len(pieces) : (place + 1) * len(pieces)]
            for place, name in enumerate(names)
        }
        recovered = {name: _joined(each, "recovered") for name, each in parts.items()}
        seen = _Seen(
            x,
            stage,
            _joined(parts[names[0]], "client"),
            np.logical_or.reduce(list(recovered.values())),
            np.logical_or.reduce([_joined(each, "any") for each in parts.values()]),
            {name: int(hits.sum()) for name, hits in recovered.items()},
            sum(each["failed"] for each in payloads),
        )
        self.log.append(seen)
        return seen

    def _counts_at(self, found: Calibration) -> Counts | None:
        if found.x is None:
            return None
        point = next(p for p in reversed(found.points) if p.passed)
        return _counts([s for s in self.log if s.x == point.x and s.stage == point.stage])


def stream_of(family: Family) -> str:
    """Families that look alike to the adversary share their units."""
    places = " of own places" if family.seen == "sum" and family.own_places else ""
    return f"{family.knob or 'none'} of the {family.seen}{places}"


def streams(families: Sequence[Family]) -> int:
    """M: how many calibrations the families take, the bare sum included."""
    names = {stream_of(family) for family in families if family.seen != "nothing"}
    if any(family.seen == "sum" or family.knob == "bound" for family in families):
        names.add("none of the sum")
    return max(1, len(names))


def _joined(parts: Sequence[dict[str, Any]], name: str) -> NDArray[Any]:
    return np.concatenate([np.asarray(part[name]) for part in parts])


def _counts(seen: Sequence[_Seen]) -> Counts:
    by_client: dict[int, tuple[int, int]] = {}
    by_attack: Counter[str] = Counter()
    for each in seen:
        by_attack.update(each.by_attack)
        for client, hit in zip(each.client.tolist(), each.recovered.tolist(), strict=True):
            units, hits = by_client.get(client, (0, 0))
            by_client[client] = units + 1, hits + int(hit)
    return Counts(
        units=sum(len(each.client) for each in seen),
        successes=sum(int(each.recovered.sum()) for each in seen),
        any_record=sum(int(each.any_record.sum()) for each in seen),
        by_client=dict(sorted(by_client.items())),
        by_attack=dict(by_attack),
        failed=sum(each.failed for each in seen),
    )
