"""What commands that measure share: options, the scenario's source, and the run folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilemma.settings import run_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from trilemma.commands.settings import Running
    from trilemma.estimation.recovering.criterion import Guess
    from trilemma.estimation.recovering.recoveries import Outcomes
    from trilemma.estimation.recovering.units import Measurement
    from trilemma.estimation.scenario import Scenario
    from trilemma.settings import Federated
    from trilemma.tuning.results.front import Front
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.work.journal import Run

__all__ = [
    "AttackOption", "Prepared", "SuccessOption", "interruptible", "prepare", "resumable",
    "show_or_dump", "tell",
]  # fmt: skip

AttackOption = Annotated[str, typer.Option(help="The attack; an unknown name lists them.")]
SuccessOption = Annotated[
    str | None,
    typer.Option(help="When a record is recovered: psnr:20, ssim:0.6; default psnr by kappa."),
]


@dataclass(frozen=True)
class Prepared:
    """A command, ready to run."""

    source: Callable[[], Scenario]
    scenario: Scenario
    guess: Guess
    measurement: Measurement
    folder: Path
    settings: Mapping[str, Any]

    def measured(
        self, run: Run, running: Running, **changes: Any
    ) -> tuple[Outcomes | None, Outcomes]:
        """What is recovered under the protection, if there is one, and without."""
        from trilemma.estimation.recovering.recoveries import measure

        asked, criterion = replace(self.measurement, **changes), self.guess.criterion
        return measure(
            *(self.source, asked, criterion),
            run=run,
            show_progress=True,
            workers=running.workers,
            ray=running.ray,
        )

    def headline(self) -> str:
        from trilemma.errors import printable

        asked, scenario = self.measurement, self.scenario
        clients = len(scenario.records)
        return (
            f"{printable(scenario.name)}: {asked.units * clients} updates of "
            f"{scenario.local_training.unit_size} records from {clients} clients "
            f"({scenario.local_training.algorithm}), {asked.attack!r}, best of {asked.restarts}, "
            f"seed {asked.seed}"
        )

    def originals(self, units: int) -> NDArray[np.float32]:
        """The records [units, S, *shape] of the first units."""
        import torch

        from trilemma.estimation.recovering.units import draw_unit

        drawn = [draw_unit(self.scenario, self.measurement, number) for number in range(units)]
        return torch.stack([unit.records.inputs for unit in drawn]).numpy()


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """An interruption says how to go on with the run in a folder."""
    from trilemma.errors import printable

    try:
        yield
    except KeyboardInterrupt:
        print(
            f"trilemma: interrupted; finished chunks are kept in {printable(folder)}: run the "
            f"same command again to go on.",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


@contextmanager
def resumable(folder: Path, settings: Mapping[str, Any], *, fresh: bool) -> Iterator[Run]:
    """A run folder; an interruption says how to go on."""
    from trilemma.work.journal import Run

    with interruptible(folder), Run.open(folder, settings, fresh=fresh) as run:
        yield run


def prepare(
    command: str,
    federated: Federated,
    *,
    attack: str,
    success: str | None,
    units_for: Callable[[int], int],
    out: Path | None,
    **effort: Any,
) -> Prepared:
    """Load the scenario, choose the criterion and name the run folder.

    `units_for` says how many units to attack of each of so many clients.
    """
    print(f"{command}: reading {federated.scenario}", file=sys.stderr, flush=True)
    from trilemma.attacks import get
    from trilemma.beliefs.recovery import Criterion
    from trilemma.estimation.identity import own_code, parts_of
    from trilemma.estimation.recovering.criterion import choose_criterion
    from trilemma.estimation.recovering.units import Measurement
    from trilemma.work.fingerprints import fingerprint

    source = federated.source()
    chosen = get(attack)  # an unknown name is told before any data is read
    scenario = source()
    units = units_for(len(scenario.records))
    measurement = Measurement(attack=chosen, units=units, **effort)
    criterion = Criterion.parse(success) if success else None
    guess = choose_criterion(scenario, criterion, seed=measurement.seed)
    decides = {
        "records": [len(records) for records in scenario.records],
        "success": f"{guess.criterion.metric}:{guess.criterion.threshold!r}",
        **measurement.settings(),
        "attack's code": fingerprint(type(chosen)),
        "protection's code": own_code(parts_of(measurement.protection)),
    }
    settings = {
        "command": command,
        "scenario": federated.scenario,
        **federated.options(),
        **decides,
    }
    folder = out or run_folder(command, federated, decides)
    return Prepared(source, scenario, guess, measurement, folder, settings)


def show_or_dump(
    document: Mapping[str, Any], running: Running, show: Callable[[], None], where: str
) -> None:
    """Print what was found, as JSON or for people, and on stderr where it is."""
    from trilemma.errors import printable

    if running.as_json:
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        show()
    print(f"trilemma: {printable(where)}", file=sys.stderr)


def tell(result: Verdict | Front, folder: Path, *, as_json: bool) -> None:
    """Print a result, as JSON or for people with where its file and its page are."""
    if as_json:
        print(json.dumps(result.as_json(), allow_nan=False, indent=2))
        return
    from trilemma.errors import printable
    from trilemma.reporting.words.front import show_front
    from trilemma.reporting.words.verdict import show_verdict
    from trilemma.tuning.results.verdict import Verdict

    if isinstance(result, Verdict):
        show_verdict(result)
    else:
        show_front(result)
    what = "verdict" if isinstance(result, Verdict) else "front"
    print(f"\n{what}: {printable(folder / result.file)}")
    print(f"report: {printable(folder / 'report.html')}")
