"""How often each attack guesses right from one round, with a protection and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from trilemma.attacks import get
from trilemma.attacks.crafted import IMPRINT, require_craftable
from trilemma.entropy import Seeded
from trilemma.execution.pool import executor
from trilemma.execution.scheduler import Scheduler
from trilemma.game.estimates import Estimate, success_rate
from trilemma.game.gpu_sharing import views_together
from trilemma.game.job_results import AttackResult, Pictures, decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Arena
from trilemma.game.playing.suite import suite_of
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import parts_of, require_own, require_scenario
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.quantities import counted
from trilemma.tuning.families.game_counts import cut
from trilemma.tuning.time_left import Kind, Range, Remaining

if TYPE_CHECKING:
    from trilemma.attacks import KnowledgeLevel
    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.scenario import Source

    Played = tuple["Rated", dict[str, Pictures]]

Server = Literal["curious", "malicious"]

__all__ = ["Rated", "Ratings", "rate"]

_CHUNK: Final = 16
_STEPS: Final = 20  # of SGD, of the models at which one round is attacked
_PICTURES: Final = 8


@dataclass(frozen=True)
class Rated:
    """Right guesses of one attack in `units` games without protection, and under one.

    `crafted` is what a malicious server sent instead of its model.
    """

    attack: str
    knows: KnowledgeLevel
    units: int
    won: int
    success: Estimate
    protected: int | None = None
    protected_success: Estimate | None = None
    crafted: str | None = None

    def works(self, kappa: float) -> bool:
        """Whether it does better than a blind guess on unprotected updates."""
        return self.success.low > kappa


@dataclass(frozen=True)
class Ratings:
    """All attacks, the best first; `pictures` by attack of some records, where they are shown."""

    scenario: Scenario
    knows: KnowledgeLevel
    protection: str
    claim: Claim
    rated: tuple[Rated, ...]
    pictures: dict[str, dict[str, Pictures]] | None

    @property
    def images(self) -> dict[str, Any] | None:
        """The pictures, where records are images."""
        return self.pictures if len(self.scenario.input_spec.shape) > 1 else None

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, without pictures."""
        return {
            "scenario": self.scenario.name,
            "protection": self.protection,
            "knows": self.knows,
            "candidates": self.claim.candidates,
            "attacks": [asdict(rated) for rated in self.rated],
            "failed": self.failed(),
        }

    def failed(self) -> list[str]:
        """A sentence for each attack that fails unprotected, with those that did better."""
        kappa, made = self.claim.kappa, []
        for item in self.rated:
            if item.works(kappa):
                continue
            better = [f"{e.attack} ({e.won} of {e.units})" for e in self.rated if e.won > item.won]
            than = f"better: {', '.join(better)}" if better else "no other attack does better"
            made.append(
                f"{item.attack} is right in {item.won} of {item.units} games without protection, "
                f"not shown to be better than a blind guess, so it says nothing about a "
                f"protection; {than}."
            )
        return made


def rate(
    source: Source,
    *,
    knows: KnowledgeLevel,
    attacks: Sequence[str] | None = None,
    protection: Protection | None = None,
    units: int,
    restarts: int,
    seed: int,
    server: Server = "curious",
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
) -> Ratings:
    """Let every attack of some knowledge play the same games of one round.

    A malicious server crafts the model of that round, in each of the ways that are known.
    """
    counted("units (games to play)", units)
    Seeded(seed)
    scenario = source if isinstance(source, Scenario) else source()
    specs = ["none"] if protection in (None, Protection()) else ["none", protection.describe()]
    if run is not None:
        require_scenario(run, scenario)
        require_own(run, {} if protection is None else parts_of(protection))
    suite = suite_of(scenario, knows, attacks)
    crafts: tuple[str | None, ...] = (None,)
    if server == "malicious":
        require_craftable(scenario.task)
        crafts = (IMPRINT, "trap", "trapdoors")
    if ticker is not None:
        most = units * len(specs) * len(crafts)
        games = Range(most, most)
        kinds = {name: Kind("games", (name,), 1) for name in suite.attacks}
        work = {name: {kind: games} for name, kind in kinds.items()}
        ticker.expect(Remaining(work, workers))
    job_runner = JobRunner(source, None, restarts, _STEPS, seed, together=views_together(scenario))
    with executor(job_runner, workers=workers, ray=ray, device=scenario.device) as pool:
        wanted = {
            name if crafted is None else f"{name}, {crafted}": _played(name, specs, units, crafted)
            for name in suite.attacks
            for crafted in crafts
        }
        found = Scheduler(pool, decode, run=run, watcher=ticker).run_all(wanted)
    order = sorted((found[name][0] for name in wanted), key=lambda item: -item.won)
    shown = {name: found[name][1] for name in wanted} if scenario.show_records else None
    claim = Arena.of(scenario, rounds=1).claim
    return Ratings(scenario, knows, specs[-1], claim, tuple(order), shown)


def _played(
    name: str, specs: Sequence[str], units: int, crafted: str | None = None
) -> Procedure[Played]:
    """Right guesses without protection and under one, and by protection the pictures, or None."""
    won, pictures = [], {}
    for spec in specs:
        job = AttackJob("suite", spec, (name,), Adversary.SERVER, 1, 0, units, crafted=crafted)
        first, *others = cut(job, _CHUNK)
        first = replace(first, pictures=min(_PICTURES, units))
        results: list[AttackResult] = yield [first, *others]
        won.append(sum(result.won(name) for result in results))
        if results[0].pictures is not None:
            pictures[spec] = results[0].pictures
    bare, *protected = won
    made = Rated(name, get(name).knows, units, bare, success_rate(bare, units), crafted=crafted)
    for hits in protected:
        made = replace(made, protected=hits, protected_success=success_rate(hits, units))
    return made, pictures
