"""The state of one calibration: explore, then walk from a safe strength towards weaker ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betaincinv, ndtri

from trilemma.beliefs.intervals import clopper_pearson_upper, zero_success_size
from trilemma.errors import InvalidInput
from trilemma.tuning.calibration.outcomes import (
    UNPROTECTED,
    Calibration,
    Control,
    Tested,
    Trial,
    Trials,
    counts_by_strength,
    non_monotone,
)
from trilemma.tuning.calibration.sequential_test import SMALLEST_BATCH, SequentialTest, usual_test
from trilemma.tuning.calibration.success_curve import SuccessCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXPLORED", "FIRST_CHAIN", "Search", "exploration", "separation", "tests_of"]

EXPLORED: Final = 24  # units at least: two pairs
_EXPLORATION: Final = (60, 1600)  # units at most: on narrow curves, on any
_NARROW: Final = 0.3  # sd in decades up to which a curve is narrow
_MORE: Final = 6  # a batch has one for so many units that were explored before
_CEILING: Final = 0.15  # success at least without protection: a curve needs something to fall from
_INFORMATIVE: Final = (0.15, 0.6)  # success rates at which a unit says most about μ and sd
_APART: Final = 0.6  # of a pair from the middle, in sd of the crossing; 0.5 and 0.7 do as well
_SETTLED: Final = (0.05, 0.12, 0.5)  # sd of x* that ends it: in decades, in the curve's sd
_SEPARATION: Final = 0.1  # decades beyond x* at which a test of a narrow curve should pass
# In the curve's sd; few, for caches.
_SEPARATIONS: Final = (*(0.1, 0.14, 0.2, 0.28, 0.4), *(0.57, 0.8, 1.13, 1.6))
_CLOSE: Final = 0.28  # the least separation that is tried whatever the gradient
_SAFE: Final = 0.8  # P(pass) wanted of a chain's first test
_HOPEFUL: Final = 0.3  # P(pass) wanted of a further step
_HOPELESS: Final = 0.1  # P(pass) below which no further chain is begun
_SMALLEST_GAIN: Final = 0.02  # decades expected from a further step: 5 % of the parameter
_ESCAPE: Final = 0.3  # decades to go when the model sees no strength that is safe
_TESTS: Final = 8  # in a chain; three are usual
_CHAINS: Final = 5
FIRST_CHAIN: Final = 0.8  # share of the level


class Search:
    """Points so far, the belief, and the number of the next unit.

    Strengths are places in `candidates`: no protection first where it is allowed, then the lattice
    of the belief from weak to strong.
    """

    def __init__(self, p_max: float, alpha: float, first_unit: int) -> None:
        self.p_max, self.alpha, self.first_unit = p_max, alpha, first_unit
        self.points: list[Tested] = []
        self.units = 0

    def believe(self, domain: tuple[float, float], control: Control, unprotected: bool) -> None:
        seen = (control.successes + 0.5) / (control.units + 0.5)
        self.curve = SuccessCurve.prior(*domain, min(1.0, max(_CEILING, seen)))
        self.domain, self.control = domain, control
        self.offset = 1 if unprotected else 0
        weakest = [UNPROTECTED] if unprotected else []
        self.candidates = np.concatenate([weakest, self.curve.strengths])
        # No protection is worth as much as half a decade below the weakest setting.
        self.worth = self.candidates.copy()
        if unprotected:
            self.worth[0] = domain[0] - 0.5

    def attack(self, xs: Sequence[float], count: int, stage: str) -> Trials[Sequence[int]]:
        """The successes among `count` fresh games at each x."""
        first = self.first_unit + self.units
        successes = yield [
            Trial(x, count, stage, first + place * count) for place, x in enumerate(xs)
        ]
        for won in successes:
            if not 0 <= won <= count:
                raise InvalidInput(f"of {count} games none to all are won, got {won}.")
        self.units += count * len(xs)
        return successes

    def observe(self, place: int, units: int, successes: int) -> None:
        if place < self.offset:
            self.control = Control(self.control.successes + successes, self.control.units + units)
        else:
            self.curve = self.curve.observe(place - self.offset, units, successes)

    def explore(self, most: int = _EXPLORATION[1], *, there: int = 0) -> Trials[None]:
        """Batches where a unit says most about x*, until x* is known well enough to test.

        In pairs, one on either side of where it is believed to be, so that both can be under way.
        The last units, as many as are wanted `there`, where it is believed to be. How many there
        are at most follows from how wide the curve is believed to be.
        """
        rate = min(max(self.p_max, _INFORMATIVE[0]), _INFORMATIVE[1], 0.8 * self.curve.ceiling)
        used = 0
        while used < most:
            count = max(SMALLEST_BATCH, used // _MORE)
            pair = used + 2 * count <= most - there
            sides = (-_APART, _APART) if pair else (0.0,)
            middle, sd = self.curve.crossing(rate if pair else self.p_max)
            lattice = self.curve.strengths
            nearest = [np.abs(lattice - (middle + side * sd)).argmin() for side in sides]
            places = [int(place) + self.offset for place in nearest]
            xs = [float(self.candidates[place]) for place in places]
            won = yield from self.attack(xs, count, "explore")
            for place, x, successes in zip(places, xs, won, strict=True):
                self.points.append(Tested("", x, count, successes, stage="explore"))
                self.observe(place, count, successes)
                used += count
            width = self.curve.width
            least, enough, part = _SETTLED
            settled = max(least, min(enough, part * width))
            where, sd = self.curve.crossing(self.p_max)
            beyond = where - sd > self.domain[1]  # more units would only tell how far
            if (used >= EXPLORED and (sd <= settled or beyond)) or used >= exploration(width):
                return

    def walks(self) -> Trials[int | None]:
        """The chains; the place of the last strength that passed.

        Where no protection is likely to pass, it is tested first: there is nothing to explore.
        """
        failed: int | None = None
        explored = False
        for chain in range(_CHAINS):
            level = FIRST_CHAIN * self.alpha if chain == 0 else 0.2 * self.alpha / 2**chain
            stage = "walk" if chain == 0 else f"fallback {chain}"
            if not explored and not (chain == 0 and self.idle(level)):
                self.believe(
                    self.domain, self.control, bool(self.offset)
                )  # a lost test tells more
                yield from self.explore()
                explored = True
            test, chance = self.suited(level) if chain == 0 else self.surest(level)
            start = _start(chance, failed, self.candidates)
            if start is None:
                return None
            best = yield from self.walk(start, test, stage)
            if best is not None:
                return best
            failed = start
        return None

    def idle(self, level: float) -> bool:
        """Whether the attack fares so badly that a test without protection is likely to pass."""
        return bool(self.offset and self.suited(level)[1][0] >= _SAFE)

    def walk(self, place: int, test: SequentialTest, stage: str) -> Trials[int | None]:
        """One chain from `place` towards weaker strengths, up to its first fail."""
        best: int | None = None
        for _ in range(_TESTS):
            passed = yield from self.passes(place, test, stage)
            if not passed:
                break
            best = place
            test, chance = self.suited(test.level)
            gain = chance[:best] * (self.worth[best] - self.worth[:best])
            gain[chance[:best] < _HOPEFUL] = 0.0
            if not gain.size or gain.max() < _SMALLEST_GAIN:
                break
            place = int(np.argmax(gain))
        return best

    def passes(self, place: int, test: SequentialTest, stage: str) -> Trials[bool]:
        """Test one strength with units of its own."""
        x = float(self.candidates[place])
        units = successes = look = 0
        decision = None
        while decision is None:
            (won,) = yield from self.attack([x], test.looks[look] - units, stage)
            successes += won
            units = test.looks[look]
            decision = test.decide(look, successes)
            look += 1
        self.observe(place, units, successes)
        passed = decision == "pass"
        self.points.append(Tested("", x, units, successes, passed, stage, test.level))
        return passed

    def suited(self, level: float) -> tuple[SequentialTest, NDArray[np.float64]]:
        """A test suited to the gradient of the curve, and its P(pass) at every candidate."""
        return self.prospects(level, separation(self.curve.width))

    def surest(self, level: float) -> tuple[SequentialTest, NDArray[np.float64]]:
        """The test with the best chance anywhere: after a fail a floor may matter, not a gradient.

        None is much longer than the gradient asks for.
        """
        closest = min(_CLOSE, separation(self.curve.width))
        choices = [self.prospects(level, item) for item in _SEPARATIONS if item >= closest]
        return max(choices, key=lambda choice: float(choice[1].max()))

    def prospects(
        self, level: float, separation: float
    ) -> tuple[SequentialTest, NDArray[np.float64]]:
        test = usual_test(self.p_max, level, separation)
        chance = self.curve.expect(test.pass_probability)
        if self.offset:
            hits, misses = self.control.successes, self.control.units - self.control.successes
            rates = betaincinv(hits + 0.5, misses + 0.5, np.arange(0.05, 1, 0.1))
            chance = np.concatenate([[test.pass_probability(rates).mean()], chance])
        return test, chance

    def passed(self, best: int) -> Calibration:
        x = float(self.candidates[best])
        point = next(p for p in reversed(self.points) if p.passed)
        what = "no protection" if x == UNPROTECTED else f"10^{x:.3f} times the warm start"
        return self.result(
            x,
            f"At {what}, {point.recovered} of {point.units} fresh games were won, which "
            f"shows a success rate of at most {self.p_max:.4g} at confidence "
            f"{1 - self.alpha:.4g}.",
        )

    def not_passed(self) -> Calibration:
        rates = self.curve.expect()
        likely = float(rates.min())
        upper = self.smallest_upper()
        reason = (
            f"No strength was shown to keep the success rate at or below {self.p_max:.4g}: the "
            f"smallest upper limit reached is {upper:.4g}"
        )
        if likely < self.p_max:
            needed = _size_needed(self.p_max, likely, self.alpha)
            reason += f"; about {needed} games at the strongest setting would be needed."
        else:
            reason += (
                f" and the success rate seems to stay near {likely:.2g}, so more games would not "
                f"help; raise the budget or combine protections."
            )
        return self.result(None, reason)

    def smallest_upper(self) -> float:
        """Over all strengths tried, each by itself; for display: the least of many is biased."""
        limits = (
            clopper_pearson_upper(successes, units, 1 - self.alpha)
            for successes, units in counts_by_strength(self.points).values()
        )
        return min(limits)

    def result(self, x: float | None, reason: str) -> Calibration:
        odd = non_monotone(self.points)
        if odd is not None:
            reason += (
                f" The curve is not monotone: 10^{odd[1]:.3f} times the warm start is stronger "
                f"than 10^{odd[0]:.3f} times but was broken significantly more often."
            )
        return Calibration(
            self.p_max, x, tuple(self.points), self.units, reason, self.smallest_upper(), odd
        )


def exploration(width: float) -> int:
    """Units at most to find x* on a curve so wide: to know it as well takes width² as many.

    >>> [exploration(sd) for sd in (0.06, 0.2, 0.55, 2.5)]
    [60, 60, 201, 1600]
    """
    least, most = _EXPLORATION
    return max(least, min(most, int(least * (width / _NARROW) ** 2)))


def separation(width: float) -> float:
    """In the curve's sd, how far beyond x* a test should pass.

    .1 decades on narrow curves; on wider ones, where a test takes (width / decades)² as many
    units, the decades grow with the root of the width.

    >>> [separation(sd) for sd in (0.06, 0.2, 0.55, 2.5)]
    [1.6, 0.57, 0.28, 0.1]
    """
    wanted = _SEPARATION * math.sqrt(max(1.0, width / _NARROW)) / width
    return min(_SEPARATIONS, key=lambda item: abs(math.log(item / wanted)))


def tests_of(p_max: float, level: float) -> list[SequentialTest]:
    """The tests that a chain at this level chooses from."""
    return [usual_test(p_max, level, separation) for separation in _SEPARATIONS]


def _start(
    chance: NDArray[np.float64], failed: int | None, candidates: NDArray[np.float64]
) -> int | None:
    """Where a chain begins: the weakest strength likely to pass, after a fail a stronger one."""
    if failed is None:
        return int(np.argmax(chance >= min(_SAFE, 0.95 * chance.max())))
    last = len(candidates) - 1
    stronger = chance[min(failed + 1, last) :]
    if stronger.max() < _HOPELESS:
        return None
    if failed == last:
        return last  # nothing is stronger; fresh units may still pass
    first = last + 1 - len(stronger)
    if stronger.max() >= _SAFE:
        return first + int(np.argmax(stronger >= _SAFE))
    beyond = int(np.searchsorted(candidates, candidates[failed] + _ESCAPE))
    return min(last, max(failed + 1, beyond))


def _size_needed(p_max: float, rate: float, alpha: float) -> int:
    """n of one test at level α that passes with probability .85 where p = rate (normal limit)."""
    spread = -ndtri(alpha) * math.sqrt(p_max * (1 - p_max))
    spread -= ndtri(0.15) * math.sqrt(rate * (1 - rate))
    return max(zero_success_size(p_max, alpha), math.ceil((spread / (p_max - rate)) ** 2))
