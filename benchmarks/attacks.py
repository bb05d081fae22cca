"""Success at equal cost of every attack on the same games, and how many units a second they read.

python benchmarks/attacks.py                     # one core; writes docs/benchmarks/attacks.md
python benchmarks/attacks.py --quick             # a minute, to see that it runs
python benchmarks/attacks.py --device cuda       # seconds on a GPU instead; attacks-cuda.md
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import Analytic, Attack, KnowledgeLevel, Reconstructions, View, get
from trilemma.beliefs.intervals import clopper_pearson
from trilemma.game.playing.games import Arena, Game
from trilemma.game.playing.guesses import play
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.scenarios import load_scenario
from trilemma.scenarios.networks import lenet, uniform_weights

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

DLG, MAP, GAUSSIAN, EXACT = "dlg", "map", "gaussian-posterior", "exact-posterior"
NAMES = (DLG, "idlg", "inverting-gradients", "analytic", MAP, "linkage", GAUSSIAN, EXACT)
SUM = "secret-sharing"
PUBLIC = 297  # records on which the rates' Gaussian posterior learns the law of the rest
HURRIED: Mapping[str, dict[str, Any]] = {
    **{name: {"iterations": 1, "masked_iterations": 0} for name in (DLG, "idlg")},
    "inverting-gradients": {"iterations": 1},
    MAP: {"message_levels": ((1e-2, 1),), "sum_levels": ((1e-2, 1),)},
}
CPU = "CPU seconds a unit, one thread,\nmeasured while the machine did other work too"
INTRODUCTION = """\
A game is one round of a federation at a fresh model: one record of a client is sought in a
candidate set of 100 candidates of the same client, so a blind guess solves one in 100. All attacks
play the same games. DLG sets the cost, with the starts named; every other attack that searches
makes as many starts as fit into the seconds DLG took, at least one, and keeps the one it explains
best. The posteriors search nothing and cost what they cost. Seconds are {seconds}. Intervals are
Clopper-Pearson's at 95 %."""


@dataclass(frozen=True, eq=False)
class Net:
    """A federation, the strengths at which it is attacked, and the effort."""

    title: str
    scenario: Scenario
    units: int
    noise: tuple[float, ...]
    keep: tuple[float, ...]
    sums: tuple[str, ...]
    starts: int
    efforts: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def protections(self, *, quick: bool) -> list[str]:
        noise = [f"randomization:variance={item:g}" for item in self.noise]
        masks = [f"compression:keep={item:g}" for item in self.keep]
        return noise[:1] if quick else [*noise, *masks, *self.sums]

    def attacks(self) -> list[Attack]:
        made: list[Attack] = [get(name, **self.efforts.get(name, {})) for name in NAMES]
        return [*made, Breaching()] if find_spec("breaching") else made


def digits(device: str, units: int) -> Net:
    return Net(
        "digits-mlp: 10 clients, batches of 4, sigmoid MLP (2,410 parameters)",
        load_scenario("digits-mlp", device=device),
        units,
        (1.27e-4, 1e-3, 4e-3, 1e-2, 3e-2),
        (0.1, 0.03),
        (SUM, f"randomization:variance=0.001+{SUM}"),
        starts=3,
    )


def fashion(title: str, device: str, units: int, relu: bool) -> Net:
    whole = load_scenario("fashion-mnist", clients=5)
    model = lenet((1, 28, 28), 10)
    if relu:
        layers = [nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(784, 10))
    some = torch.arange(300)
    scenario = Scenario(
        model,
        cross_entropy,
        [client[some] for client in whole.records],
        whole.test_records[torch.arange(600)],
        LocalTraining("fedsgd", lr=0.1, batch=2),
        initialise=None if relu else uniform_weights,
        device=device,
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Net(
        f"{title} on Fashion-MNIST: 5 clients, batches of 2 ({parameters:,} parameters)",
        scenario,
        units,
        (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        (0.1, 0.01),
        (SUM,),
        starts=1,
        efforts={
            **{name: {"masked_iterations": 0} for name in (DLG, "idlg")},
            "inverting-gradients": {"iterations": 300},
            MAP: {"sum_levels": ((1e-3, 150), (1e-5, 300))},
        },
    )


@dataclass(frozen=True)
class Breaching:
    """The public `breaching` package's DLG: single messages of images, every coordinate read."""

    name: str = "breaching"
    knows: KnowledgeLevel = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        import breaching

        told = ["attack=deepleakage", "attack.optim.max_iterations=300"]
        settings = breaching.get_config(overrides=told)
        task = views[0].task
        setup = {"device": views[0].weights.device, "dtype": torch.float}
        attacker = breaching.attacks.prepare_attack(
            task.model, nn.CrossEntropyLoss(), settings.attack, setup
        )
        found = []
        for unit, view in enumerate(views):
            nn.utils.vector_to_parameters(view.weights, task.model.parameters())
            kind = {"shape": view.input_spec.shape, "classes": task.classes, "mean": (0.0,)}
            metadata = Attributes(kind, std=(1.0,), modality="vision", task="classification")
            parameters = [part.clone() for part in task.layout.unflatten(view.weights).values()]
            server = {"parameters": parameters, "buffers": [], "metadata": metadata}
            gradients = list(task.layout.unflatten(view.observation.update).values())
            batch = {"num_data_points": view.records, "labels": None, "data_key": "inputs"}
            about = {**batch, "local_hyperparams": None}
            shared = {"gradients": gradients, "buffers": None, "metadata": about}
            torch.manual_seed(seed + unit)
            result, _ = attacker.reconstruct([server], [shared], {}, dryrun=False)
            found.append(result["data"].detach().clamp(0, 1))
        none = torch.zeros(len(views))
        return Reconstructions(torch.stack(found), None, none, none.bool())


class Attributes(dict[str, Any]):
    """breaching reads its metadata both as a dict and by attribute."""

    __getattr__ = dict.__getitem__


def applies(attack: Attack, view: View) -> bool:
    if attack.name == "breaching":
        whole = view.observation.known is None and view.observation.clients == 1
        return whole and view.input_spec.shape[-1] == 28
    return not isinstance(attack, Analytic) or attack.applies(view)


@dataclass(frozen=True)
class Found:
    """An attack's outcome, for `play`."""

    name: str
    knows: KnowledgeLevel
    outcome: Reconstructions

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        return self.outcome


@dataclass(frozen=True)
class Cell:
    """What one attack made of the games of one protection."""

    units: int
    solved: int
    pictures: float | None
    starts: int
    first: float
    seconds: float

    def shown(self) -> tuple[str, str, str]:
        """Candidate sets solved, pictures and cost, as entries of three tables."""
        interval = clopper_pearson(self.solved, self.units)
        solved = f"{self.solved}/{self.units} ({interval.low:.2f}–{interval.high:.2f})"
        pictures = "" if self.pictures is None else f"{self.pictures:.2f}"
        return solved, pictures, f"{self.seconds:.3g} ({self.starts})"


def clock() -> float:
    """CPU seconds, or wall seconds once a GPU has finished."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def spend(
    attack: Attack, views: Sequence[View], seconds: float
) -> tuple[Reconstructions, int, float, float]:
    """The best of as many starts as fit into the seconds; their number, the first's, all's."""
    began = clock()
    best, starts = attack(views, restarts=1, seed=0), 1
    first = spent = clock() - began
    while attack.name in HURRIED and spent + first <= seconds:
        other = attack(views, restarts=1, seed=starts)
        better = (other.loss < best.loss) | (best.failed & ~other.failed)
        where, guesses = better.reshape(-1, *[1] * (best.inputs.ndim - 1)), best.guesses
        if guesses is not None and other.guesses is not None:
            guesses = torch.where(where, other.guesses, guesses)
        best = replace(
            best,
            inputs=torch.where(where, other.inputs, best.inputs),
            guesses=guesses,
            loss=torch.where(better, other.loss, best.loss),
            failed=best.failed & other.failed,
        )
        starts, spent = starts + 1, clock() - began
    return best, starts, first, spent


def attacked(net: Net, protection: str) -> dict[str, Cell]:
    """Every attack on the same games under one protection."""
    arena = Arena.of(net.scenario, rounds=1)
    observer = Observer(arena, parse_protection(protection), Adversary.SERVER, "rest", 0)
    games = [arena.draw(number, 0) for number in range(net.units)]
    each = observer.views(games)
    views = [own for own, *_ in each]
    cells: dict[str, Cell] = {}
    for attack in net.attacks():
        if not applies(attack, views[0]):
            continue
        if attack.name in HURRIED:  # traces are made once in a process
            get(attack.name, **HURRIED[attack.name])(views, restarts=1, seed=0)
        if attack.name == DLG:
            began = clock()
            found, starts = attack(views, restarts=net.starts, seed=0), net.starts
            first = spent = clock() - began
        else:
            found, starts, first, spent = spend(attack, views, cells[DLG].seconds * net.units)
        made = Found(attack.name, attack.knows, found)
        guesses = play(observer, games, each, made, restarts=1, seed=0)
        believes = found.log_probability is not None
        shown = None if believes else sought_at_20_db(found, arena, games)
        solved = int((guesses.correct & ~guesses.failed).sum())
        costs = (first / net.units, spent / net.units)
        cells[attack.name] = Cell(net.units, solved, shown, starts, *costs)
        print(net.title.split()[0], protection, attack.name, cells[attack.name], flush=True)
    return cells


def sought_at_20_db(found: Reconstructions, arena: Arena, games: Sequence[Game]) -> float:
    """The share of sought records to which a reconstruction comes within 20 dB of PSNR."""
    sought = arena.pool.inputs[torch.tensor([game.sought for game in games])][:, None]
    error = (found.inputs.cpu() - sought).square().flatten(2).mean(2).amin(1)
    spec = arena.scenario.input_spec
    reached = error <= (spec.high - spec.low) ** 2 * 0.01
    return float(reached.double().mean())


def tables(net: Net, results: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    lines = ["", f"## {net.title}", "", f"{net.units} games; DLG's best of {net.starts}."]
    captions = (
        "Candidate sets solved",
        "Sought record at 20 dB of PSNR or more",
        "Seconds (starts)",
    )
    for part, caption in enumerate(captions):
        lines += ["", f"| {caption} | {' | '.join(map(short, results))} |"]
        lines.append("|---" * (len(results) + 1) + "|")
        for name in (attack.name for attack in net.attacks()):
            rows = [
                result[name].shown()[part] if name in result else "" for result in results.values()
            ]
            if any(rows):
                lines.append(f"| {name} | {' | '.join(rows)} |")
    return lines


def short(protection: str) -> str:
    """The protection as a column's title."""
    words = {"randomization:variance=": "noise ", "compression:keep=": "kept "}
    for word, said in {**words, SUM: "sum", "+": ", "}.items():
        protection = protection.replace(word, said)
    return protection


def against_dlg(results: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    """MAP with its labels, one start, beside DLG's best of several."""
    lines = ["", "MAP's one start, labels included, against DLG's:", ""]
    lines += ["| | MAP, seconds a unit | DLG | MAP / DLG |", "|---|---|---|---|"]
    for protection, cells in results.items():
        ours, theirs = cells[MAP].first, cells[DLG].seconds
        lines.append(f"| {short(protection)} | {ours:.3g} | {theirs:.3g} | {ours / theirs:.2f} |")
    return lines


def rates(net: Net, units: int) -> list[str]:
    """Units a second of the posteriors: N = 100, 297 public records, a fresh model each."""
    arena = Arena.of(net.scenario, rounds=1)
    lines = ["", "## Posteriors: units a second on digits-mlp", ""]
    lines.append(
        f"{units} units, candidate sets of {arena.claim.candidates}, {PUBLIC} public records."
    )
    lines += ["", "| | single messages | sums of ten |", "|---|---|---|"]
    games = [arena.draw(number, 1) for number in range(units)]
    for name in (GAUSSIAN, EXACT):
        entries = []
        for protection in ("randomization:variance=0.001", SUM):
            told = parse_protection(protection)
            observer = Observer(arena, told, Adversary.SERVER, "rest", 1, population=PUBLIC)
            views = [own for own, *_ in observer.views(games)]
            get(name)(views[:4], restarts=1, seed=0)
            began = clock()
            get(name)(views, restarts=1, seed=0)
            entries.append(f"{units / (clock() - began):.0f}")
        lines.append(f"| {name} | {' | '.join(entries)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    device, quick, on_gpu = options.device, options.quick, options.device != "cpu"
    units = (4, 2, 2) if quick else (256, 128, 128) if on_gpu else (16, 6, 4)
    nets = [
        digits(device, units[0]),
        fashion("ReLU CNN", device, units[1], relu=True),
        fashion("LeNet", device, units[2], relu=False),
    ]
    where = f"those of one {torch.cuda.get_device_name()}, a unit" if on_gpu else CPU
    command = f"python benchmarks/attacks.py{f' --device {device}' * on_gpu}{' --quick' * quick}"
    lines = ["# Attacks: success at equal cost", "", f"`{command}`, {stamp()}.", ""]
    lines.append(INTRODUCTION.format(seconds=where))
    lines += rates(nets[0], 8 if quick else 192)
    out = options.out or Path(f"docs/benchmarks/attacks{'-cuda' * on_gpu}.md")
    for net in nets:
        results = {item: attacked(net, item) for item in net.protections(quick=quick)}
        lines += tables(net, results)
        if net.starts > 1:
            lines += against_dlg(results)
        out.write_text("\n".join(lines) + "\n")  # nets take minutes: keep what is done


if __name__ == "__main__":
    main()
