"""What commands that measure share: options, the scenario's source, and the run folder."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from trilemma.estimation.recovering.constants import Guess
    from trilemma.estimation.recovering.units import Measurement
    from trilemma.estimation.scenario import Scenario
    from trilemma.work.journal import Run

__all__ = [
    "AlphaOption",
    "AttackOption",
    "BatchOption",
    "ClientsOption",
    "DataOption",
    "DeviceOption",
    "FreshOption",
    "JsonOption",
    "OutOption",
    "Prepared",
    "RestartsOption",
    "ScenarioOption",
    "SeedOption",
    "SuccessOption",
    "UnitsOption",
    "WorkersOption",
    "prepare",
    "resumable",
    "run_folder",
]

_LONGEST: Final = 80  # characters of a scenario in a folder's name, which the system bounds

ScenarioOption = Annotated[
    str,
    typer.Option(help="digits, digits-lenet, fashion-mnist, mnist, cifar10, or module:function."),
]
DataOption = Annotated[str | None, typer.Option(help="Folder of the image files.")]
ClientsOption = Annotated[int | None, typer.Option(help="K, the number of clients.")]
BatchOption = Annotated[int | None, typer.Option(help="S, records of one update.")]
AlphaOption = Annotated[
    float | None, typer.Option(help="Split by a Dirichlet law with this alpha; default even.")
]
AttackOption = Annotated[str, typer.Option(help="The attack; an unknown name lists them.")]
UnitsOption = Annotated[int, typer.Option(help="Updates to attack, shared evenly by the clients.")]
RestartsOption = Annotated[int, typer.Option(help="The attack keeps the best of so many starts.")]
SuccessOption = Annotated[
    str | None,
    typer.Option(help="When a record is recovered: psnr:20, ssim:0.6; default psnr by kappa."),
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same numbers.")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu or cuda.")]
WorkersOption = Annotated[int, typer.Option(help="Processes to spread the work over.")]
OutOption = Annotated[
    Path | None, typer.Option(help="Run folder; the same command resumes there.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Start the run folder over.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class Prepared:
    """A command, ready to run."""

    source: Callable[[], Scenario]
    scenario: Scenario
    guess: Guess
    measurement: Measurement
    folder: Path
    settings: Mapping[str, Any]

    def run(self, *, fresh: bool) -> AbstractContextManager[Run]:
        """The run folder; an interruption says how to go on."""
        return resumable(self.folder, self.settings, fresh=fresh)

    def headline(self) -> str:
        """One sentence on what is measured."""
        from trilemma.errors import printable

        asked, scenario = self.measurement, self.scenario
        clients = len(scenario.records)
        return (
            f"{printable(scenario.name)}: {asked.units * clients} units of "
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

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a JSON document into the run folder."""
        from trilemma.work.files import write_json

        write_json(self.folder / name, document)


@contextmanager
def resumable(folder: Path, settings: Mapping[str, Any], *, fresh: bool) -> Iterator[Run]:
    """A run folder; an interruption says how to go on."""
    from trilemma.errors import printable
    from trilemma.work.journal import Run

    try:
        with Run.open(folder, settings, fresh=fresh) as run:
            yield run
    except KeyboardInterrupt:
        print(
            f"trilemma: interrupted; finished chunks are kept in {printable(folder)}: run the "
            f"same command again to go on.",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


def prepare(
    command: str,
    spec: str,
    options: Mapping[str, Any],
    *,
    attack: str,
    success: str | None,
    units: int,
    out: Path | None,
    **effort: Any,
) -> Prepared:
    """Load the scenario, choose the criterion and name the run folder."""
    from trilemma.attacks import get
    from trilemma.beliefs.recovery import Criterion
    from trilemma.estimation.recovering.constants import choose_criterion
    from trilemma.estimation.recovering.units import Measurement
    from trilemma.scenarios import load_scenario
    from trilemma.work.fingerprints import fingerprint

    given = {name: value for name, value in options.items() if value is not None}
    source = partial(load_scenario, spec, **given)
    chosen = get(attack)  # an unknown name is told before any data is read
    scenario = source()
    clients = len(scenario.records)
    measurement = Measurement(attack=chosen, units=-(-units // clients), **effort)
    criterion = Criterion.parse(success) if success else None
    guess = choose_criterion(scenario, criterion, seed=measurement.seed)
    settings = {
        "command": command,
        "scenario": spec,
        **given,
        "records": [len(records) for records in scenario.records],
        "success": f"{guess.criterion.metric}:{guess.criterion.threshold!r}",
        **measurement.settings(),
        "attack's code": fingerprint(type(chosen)),
    }
    folder = out or run_folder(command, spec, settings)
    return Prepared(source, scenario, guess, measurement, folder, settings)


def run_folder(command: str, spec: str, settings: Mapping[str, Any]) -> Path:
    """Named after the settings: the same command resumes, another one starts its own run."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    name = spec.replace(":", "-").replace("/", "-")[:_LONGEST]
    return Path("runs") / f"{command}-{name}-{digest}"
