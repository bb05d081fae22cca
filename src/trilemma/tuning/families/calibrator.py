"""How a family fares: the weakest strength at which every attack passes its own test.

Each attack ends a game with one guess; the claim that none guesses the target record more often
than p_max is an intersection-union test: every attack is tested at the full level, and the claim
holds if all pass. Strengths are searched with the leading attack; the others are tested where it
passes. If one of them fails, the search goes on with that one, from a stronger floor: where
several attacks are near p_max, all of them pass together only with some room.

What is shown of the strength found are fresh games of a number fixed beforehand: those of the
test that passed are known to be few, whatever the rate.

Levels: attempt r may spend (3/4)·4⁻ʳ of α, two thirds of it on the search and one third on the
others, so that the sum over all attempts stays within α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from trilemma.game.jobs import AttackJob
from trilemma.game.playing.suite import Suite
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.tuning.calibration.calibrate import EXPLORED, calibrate, crossing, games_needed
from trilemma.tuning.calibration.outcomes import (
    UNPROTECTED,
    Calibration,
    Control,
    Tested,
    Trial,
    Trials,
)
from trilemma.tuning.calibration.sequential_test import usual_test
from trilemma.tuning.families.game_counts import (
    CONTROL,
    Counts,
    GameKey,
    GameResults,
    Measured,
    counted,
    cut,
    pieces,
    played,
    recording,
    seen_of,
    total,
)
from trilemma.tuning.results.gallery import RECORDS
from trilemma.tuning.time_left import Range

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.job_results import AttackResult
    from trilemma.tuning.families.family import Family

__all__ = [
    "CHUNK",
    "CONTROL_GAMES",
    "FEW",
    "FRESH",
    "Calibrator",
    "control_jobs",
    "stream_of",
    "streams",
]

Found = TypeVar("Found")

CHUNK: Final = 16  # games of one task: what kill -9 may cost, and enough for a batched attack
FEW: Final = 4  # over a training as fast a game on a CPU: DLG takes 0.5 s for 4, 1.2 s for 8
CONTROL_GAMES: Final = 16
_SEPARATION: Final = 0.8  # of the rate that an attack's test should pass, in probits
_CLOSER: Final = 0.5  # the same where there is no stronger strength to go on to
_ATTEMPTS: Final = 3
_ROOM: Final = 0.3  # decades from the strength at which an attack failed to the next floor
_NARROW: Final = 0.025  # decades in which there is nothing to search: sums of floats are not exact
_SEARCH, _OTHERS = 2 / 3, 1 / 3
FRESH: Final = 100
_ESTIMATE: Final = 36  # games that estimate the strength of another knowledge


_Log = list[tuple[float, str, GameResults]]


@dataclass
class Calibrator:
    """Plays games for procedures: trials are turned into jobs, and their results into counts."""

    suite: Suite
    adversary: Adversary
    rounds: int
    p_max: float
    level: float
    bare: Family | None = None  # the sum with nothing added, where it is tested as well
    brief: bool = False  # whether attacks that win nothing unprotected are tried no further
    part: int = CHUNK  # games of one task where several attacks are tested
    fresh: int = FRESH  # games after the tests, by which the strength found is shown
    crafted: str | None = None  # what a malicious server sends

    def count(
        self,
        stream: str,
        protection: Protection,
        units: int,
        *,
        attacks: Sequence[str] | None = None,
        adversary: Adversary | None = None,
        rounds: int | None = None,
        chunk: int = CHUNK,
    ) -> Procedure[Counts]:
        """TrialPlayer that many games of a stream from its first, `chunk` of them a job."""
        job = AttackJob(
            stream,
            protection.describe(),
            tuple(attacks or self.suite.attacks),
            adversary or self.adversary,
            self.rounds if rounds is None else rounds,
            first=0,
            count=units,
            crafted=self.crafted,
        )
        return counted([(yield from played(job, chunk))])

    def control(self) -> Procedure[Counts]:
        """What every attack wins from the server's view of unprotected single rounds."""
        results: list[AttackResult] = yield control_jobs(self.suite)
        correct = {
            name: np.asarray(result.correct[name])
            for name, result in zip(self.suite.attacks, results, strict=True)
        }
        failed = sum(sum(result.failed.values()) for result in results)
        return counted([GameResults(np.asarray(results[0].client), correct, failed)])

    def measure(self, family: Family) -> Procedure[Measured]:
        """The weakest strength of a family at which every attack of that knowledge passes.

        Where the bare sum passes, nothing need be added to it: one claim, tested once.
        """
        games: set[GameKey] = set()
        found = yield from recording(self._measured(family), games)
        return replace(found, games=len(games))

    def _measured(self, family: Family) -> Procedure[Measured]:
        if family.mechanism is None:
            return (yield from self._single(family))
        if self.bare is not None and family.seen == self.bare.seen and not family.thins:
            alone = yield from self._single(self.bare)
            if alone.calibration.strength is not None:
                return alone
        return (yield from self._searched(family))

    def estimate(self, family: Family) -> Procedure[tuple[float, Counts]]:
        """Of the strengths played, that nearest to where the leading attack should reach p_max.

        By few games of one round, and no test: the counts are of those at that very strength.
        """
        stream = f"{stream_of(family)}, {self.suite.knows}"
        log: _Log = []
        player = TrialPlayer(self, family, self.suite.lead, stream, 1, log)
        trials = crossing(self.p_max, domain=family.domain, units=_ESTIMATE)
        reached = yield from player.all_of(trials)
        at = min((x for x, _, _ in log), key=lambda x: abs(x - reached))
        return at, counted([seen for x, _, seen in log if x == at])

    def _searched(self, family: Family) -> Procedure[Measured]:
        lead, floor = self.suite.lead, family.domain[0]
        tests: list[Tested] = []
        found: Calibration | None = None
        for attempt in range(_ATTEMPTS):
            level = 0.75 * self.level / 4**attempt
            stream = f"{stream_of(family)}, attempt {attempt}"
            log: _Log = []
            player = TrialPlayer(self, family, lead, stream, self.rounds, log)
            start = UNPROTECTED if attempt == 0 else floor
            (won,) = yield from player.won([Trial(start, CHUNK, "control", 0)])
            trials = calibrate(
                self.p_max,
                Control(won, CHUNK),
                alpha=_SEARCH * level,
                domain=(floor, family.domain[1]),
                unprotected=attempt == 0,
                first_unit=CHUNK,
            )
            found = yield from player.all_of(trials)
            if found.strength is None:
                return Measured(found, tuple(tests), None)
            point = next(p for p in reversed(found.points) if p.passed)
            own = (point.strength, point.stage)
            seen = counted([seen for x, stage, seen in log if (x, stage) == own])
            at = family.strength(found.strength)
            tests.append(replace(point, attack=lead, strength=at, after=seen.after[lead]))
            others = yield from self._others(family, lead)
            shown = family.attacked(found.strength, self.adversary)
            tested = yield from self._tested(
                *(others, shown, f"{stream}, the others", at), level=_OTHERS * level
            )
            tests += tested
            failed = [item.attack for item in tested if not item.passed]
            if not failed:
                counts = yield from self._fresh_games(stream, shown, lead)
                return Measured(found, tuple(tests), counts)
            lead, floor = failed[0], max(found.strength, family.domain[0]) + _ROOM
            if floor > family.domain[1] - _NARROW:
                break
        assert found is not None
        reason = (
            f"After {_ATTEMPTS} attempts {lead} still guessed the right record more often than "
            f"{self.p_max:.3g}; no strength was shown to stop every attack."
        )
        unmet = Calibration(self.p_max, None, found.points, found.units, reason)
        return Measured(unmet, tuple(tests), None)

    def _others(self, family: Family, lead: str) -> Procedure[list[str]]:
        """The attacks that are tested where the leading one passes."""
        names = [name for name in self.suite.on(family.seen) if name != lead]
        if not self.brief:
            return names
        won = (yield from self.control()).by_attack
        return [name for name in names if won[name] or name == self.suite.lead]

    def _single(self, family: Family) -> Procedure[Measured]:
        """Test the one strength there is: nothing is added to what the adversary reads.

        The leading attack first: where it wins too often, no other need try.
        """
        shown = family.attacked(UNPROTECTED, self.adversary)
        stream = f"none of the {family.seen}"
        lead = self.suite.lead
        others = yield from self._others(family, lead)
        tests: list[Tested] = []
        for names in ((lead,), others):
            tests += yield from self._tested(
                *(names, shown, stream, None), level=self.level, separation=_CLOSER
            )
            if not all(test.passed for test in tests):
                break
        passed = all(test.passed for test in tests)
        last = tests[0] if passed else next(test for test in tests if not test.passed)
        point = replace(last, stage="walk", level=self.level)
        few = "which shows a rate" if passed else "too many to show a rate"
        found = Calibration(
            self.p_max,
            UNPROTECTED if passed else None,
            (point,),
            sum(test.units for test in tests),
            f"{last.attack} guessed the right record in {last.recovered} of {last.units} games "
            f"from the sum of all clients, {few} of at most {self.p_max:.3g}.",
        )
        counts = None
        if passed:
            counts = yield from self._fresh_games(stream, shown, lead)
        return Measured(found, tuple(tests), counts)

    def _fresh_games(self, stream: str, shown: Protection, lead: str) -> Procedure[Counts]:
        """Fresh games of the leading attack where every attack has passed."""
        return (yield from self.count(f"{stream}, again", shown, self.fresh, attacks=(lead,)))

    def _tested(
        self,
        attacks: Sequence[str],
        shown: Protection,
        stream: str,
        strength: float | None,
        *,
        level: float,
        separation: float = _SEPARATION,
    ) -> Procedure[list[Tested]]:
        """Each attack's own test at one strength; all go on together until one of them fails."""
        test = usual_test(self.p_max, level, separation)
        tests: dict[str, Tested] = {}
        most = self.part if len(attacks) > 1 else CHUNK
        if len(attacks) > 1:  # none passes before: do not wait for the slowest at every look
            parts = pieces(test.looks[: test.soonest + 1], most)
            yield from self._wins(stream, shown, parts, attacks)
        for look, units in enumerate(test.looks):
            pending = [name for name in attacks if name not in tests]
            parts = pieces(test.looks[: look + 1], most)
            found = yield from self._wins(stream, shown, parts, pending)
            for name, (won, *after) in found.items():
                if (decision := test.decide(look, won)) is not None:
                    passed = decision == "pass"
                    tests[name] = Tested(name, strength, units, won, passed, after=tuple(after))
            if len(tests) == len(attacks) or not all(item.passed for item in tests.values()):
                break
        return [tests[name] for name in attacks if name in tests]

    def possible(self, family: Family) -> dict[str, Range]:
        """Games that `measure` may want of each attack; as many as one attempt usually takes."""
        lead, attacks = self.suite.lead, self.suite.on(family.seen)
        if family.mechanism is None:
            test = usual_test(self.p_max, self.level, _CLOSER)
            alone = Range(0, test.looks[-1])
            first = Range(test.looks[test.soonest], test.looks[-1] + self.fresh)
            return {name: first if name == lead else alone for name in attacks}
        level = 0.75 * self.level
        least, most = games_needed(self.p_max, _SEARCH * level)
        longest = usual_test(self.p_max, _OTHERS * level, _SEPARATION).looks[-1]
        games = dict.fromkeys(attacks, Range(0, longest))
        return games | {lead: Range(CHUNK + least, CHUNK + most + self.fresh)}

    def possible_estimate(self) -> dict[str, Range]:
        """Games that `estimate` may want."""
        return {self.suite.lead: Range(EXPLORED, _ESTIMATE)}

    def _wins(
        self,
        stream: str,
        shown: Protection,
        parts: Sequence[tuple[int, int]],
        attacks: Sequence[str],
    ) -> Procedure[dict[str, tuple[int, ...]]]:
        """Games of these parts (first, count) that each attack wins, and after fewer rounds too.

        All are asked for at once.
        """
        spec = shown.describe()
        jobs = [
            AttackJob(
                *(stream, spec, (name,), self.adversary, self.rounds),
                first=first,
                count=count,
                crafted=self.crafted,
            )
            for first, count in parts
            for name in attacks  # one after the other: they share what is seen of their games
        ]
        won: dict[str, list[tuple[int, ...]]] = {name: [] for name in attacks}
        results: list[AttackResult] = yield jobs
        for job, result in zip(jobs, results, strict=True):
            (name,) = job.attacks
            won[name].append((result.won(name), *result.won_after(name)))
        return {name: total(rows) for name, rows in won.items()}


@dataclass(frozen=True)
class TrialPlayer:
    """Plays the trials of a calibration of one family with one attack; `log` takes the games."""

    calibrator: Calibrator
    family: Family
    attack: str
    stream: str
    rounds: int
    log: _Log

    def all_of(self, trials: Trials[Found]) -> Procedure[Found]:
        """TrialPlayer what is wanted until the calibration ends."""
        try:
            wanted = next(trials)
            while True:
                wanted = trials.send((yield from self.won(wanted)))
        except StopIteration as end:
            found: Found = end.value
            return found

    def won(self, trials: Sequence[Trial]) -> Procedure[list[int]]:
        """The games won of each trial."""
        jobs = [self._job(trial) for trial in trials]
        parts = [cut(job, CHUNK) for job in jobs]
        results = iter((yield [job for some in parts for job in some]))
        won = []
        for trial, job, some in zip(trials, jobs, parts, strict=True):
            seen = seen_of(job, [next(results) for _ in some])
            self.log.append((trial.strength, trial.stage, seen))
            won.append(int(seen.correct[self.attack].sum()))
        return won

    def _job(self, trial: Trial) -> AttackJob:
        adversary = self.calibrator.adversary
        shown = self.family.attacked(trial.strength, adversary).describe()
        return AttackJob(
            *(self.stream, shown, (self.attack,), adversary, self.rounds),
            first=trial.first_unit,
            count=trial.units,
            crafted=self.calibrator.crafted,
        )


def control_jobs(suite: Suite) -> list[AttackJob]:
    """Each attack alone on unprotected single rounds, the first of them with pictures."""
    bare, server = Protection().describe(), Adversary.SERVER
    return [
        AttackJob(CONTROL, bare, (name,), server, 1, 0, CONTROL_GAMES, pictures=RECORDS)
        for name in suite.attacks
    ]


def stream_of(family: Family) -> str:
    """The name of a family's games: families that look alike to the adversary share theirs.

    Games are drawn by it: another name, other games.
    """
    if family.mechanism is None:
        return f"none of the {family.seen}"
    thinned = "thinned " if family.thins and not family.mechanism.thins else ""
    places = " of own places" if family.own_places else ""
    return f"{thinned}{family.mechanism.name} of the {family.seen}{places}"


def streams(families: Sequence[Family]) -> int:
    """M: how many calibrations the families take."""
    return max(1, len({item.look for item in families if item.seen != "nothing"}))
