"""The figure beside a proof, cell by cell: no attacker is above what is proved.

    python benchmarks/figure.py [--games 300] [--workers 2] [--out FOLDER]

Digits in full batches as `trilemma tune` proves them. Fresh games, of a stream of their own, by
the attack of each knowledge at each noise multiplier of the figure; an attacker written here from
scratch in numpy; and crafted weights that make all candidates' gradients orthogonal and as long as
the clip. With --out all games are journaled there, and the same command goes on where it was left.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from scipy.stats import norm

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.beliefs.intervals import clopper_pearson
from trilemma.execution.journal import Run
from trilemma.execution.scheduler import Procedure, Scheduler, together
from trilemma.federation.cohort_updates import Sending
from trilemma.game.job_results import decode
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.recipe_scenarios import applied
from trilemma.learning import Task
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.records.records import Records
from trilemma.scenarios import load_scenario
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.attacks_on_proof import EFFORTS, attacks_on, games_beside, recipe_of
from trilemma.tuning.proof.proved_candidates import certified_candidate
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidate import Candidate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.tuning.results.certificate import Certificate

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "figure.md"
FAMILY = "randomization+secret-sharing"
LEVEL: Final = 0.05
FACTORS: Final = EFFORTS["usual"].factors
CHUNK: Final = 10
STRONG: Final = ("candidates", "rest")


@dataclass(frozen=True)
class Cell:
    """Games of one knowledge at one noise multiplier; `who` names an attacker of this page."""

    who: str
    factor: float
    units: int
    recovered: int
    proof: float

    def row(self, z: float, cells: int) -> list[str]:
        """z, who, counts, rate, lower limit at .05 / cells, proof, whether it holds."""
        low = clopper_pearson(self.recovered, self.units, 1 - 2 * LEVEL / cells).low
        return [
            f"{z * self.factor:.2f}",
            self.who,
            f"{self.recovered} of {self.units}",
            f"{self.recovered / self.units:.3f}",
            f"{low:.3f}",
            f"{self.proof:.3f}",
            "yes" if low <= self.proof else "NO",
        ]


def chosen(seeds: int, run: Run | None) -> tuple[Plan, Candidate]:
    """The proved candidate of digits inside secure sums, as tune makes it."""
    plan = Plan.of(load_scenario("digits"), Request(families=(FAMILY,), seeds=seeds))
    with plan.pool(1) as pool:
        (family,) = plan.families
        scheduler = Scheduler(pool, decode, run=run)
        return plan, scheduler.run_all({"": certified_candidate(plan, family)})[""]


def proof_at(proof: Certificate, factor: float, size: int) -> float:
    """Φ(Φ⁻¹(1/N) + √R / z), by scipy: full batches, and so a closed form."""
    mu = math.sqrt(proof.rounds) / (proof.noise_multiplier * factor)
    return float(norm.cdf(norm.ppf(1 / size) + mu))


def fresh_job(plan: Plan, candidate: Candidate, factor: float, games: int) -> AttackJob:
    job = games_beside(plan, candidate, factor)
    return replace(job, stream="figure, fresh", count=games)


def played_cells(
    plan: Plan, candidate: Candidate, games: int, workers: int, run: Run | None
) -> list[Cell]:
    """Every point of the figure: who knows less than the candidates plays at the least noise."""
    proof, size, able = candidate.certificate, plan.claim.candidates, attacks_on(plan, candidate)
    assert proof is not None

    def cells(factor: float) -> Procedure[list[Cell]]:
        names = {
            knows: able[knows]
            for knows in reversed(KNOWLEDGE_LEVELS)
            if knows in able and (knows in STRONG or factor == min(FACTORS))
        }
        job = fresh_job(plan, candidate, factor, games)
        seen = yield from played(replace(job, attacks=tuple(names.values())), CHUNK)
        return [
            Cell(
                f"knows {knows} ({name})",
                factor,
                games,
                int(seen.correct[name].sum()),
                proof_at(proof, factor, size),
            )
            for knows, name in names.items()
        ]

    with plan.pool(workers) as pool:
        wanted = together([cells(factor) for factor in FACTORS])
        found = Scheduler(pool, decode, run=run).run_all({"": wanted})[""]
    return [cell for some in found for cell in some]


def outside(plan: Plan, candidate: Candidate, factor: float, games: int) -> Cell:
    """An attacker from scratch, on the released sums: numpy, its own gradients, its own posterior.

    It knows every other record, the weights and the recipe. From each sum it takes the clipped
    gradients of all other records, and correlates what is left with the candidates' own. All ten
    clients are in its sums, and the noise of as many as are counted, so that z is the same.
    """
    proof, recipe = candidate.certificate, recipe_of(candidate)
    assert proof is not None
    assert recipe is not None
    scenario = applied(recipe, plan.scenario)
    arena = Arena(scenario, replace(plan.claim, rounds=proof.rounds))
    variance = proof.variance * factor**2 * proof.survivors / len(scenario.records)
    observer = Observer(
        arena,
        Protection((Randomization(variance),), SecretSharing()),
        Adversary.SERVER,
        "nothing",  # what is told is the sums alone
        seed=20261119,
        recipe=recipe,
    )
    first, second = (float(np.mean(origin.mean)) for origin in recipe.server().centring)
    inputs = arena.pool.inputs.flatten(1).double().numpy() - first
    labels = arena.pool.labels.numpy()
    clip, batch, right = proof.record_clip, scenario.local_training.batch, 0
    for number in range(games):
        game = arena.draw(number, observer.seed)
        (views,) = observer.views([game])
        others = np.concatenate(
            [
                start + np.flatnonzero(free)
                for start, free in zip(arena.starts, game.free, strict=True)
            ]
        )
        score = np.zeros(len(game.candidate_set))
        for view in views:
            weights = view.weights.double().numpy()
            rest = clipped_total(weights, inputs[others], labels[others], clip, second)
            own = np.stack(
                [
                    clipped_total(weights, inputs[[place]], labels[[place]], clip, second)
                    for place in game.candidate_set
                ]
            )
            share = 1 / (len(scenario.records) * batch)
            gap = view.observation.update.double().numpy() - share * rest
            signal = share * own
            spread = variance / len(scenario.records)
            score += (signal @ gap - 0.5 * (signal**2).sum(1)) / spread
        right += int(score.argmax() == game.target)
    bound = proof_at(proof, factor, plan.claim.candidates)
    return Cell("numpy, from scratch, knows the rest", factor, games, right, bound)


HIDDEN, CLASSES, PIXELS = 32, 10, 64


def clipped_slopes(
    weights: NDArray[np.float64],
    inputs: NDArray[np.float64],
    labels: NDArray[np.int64],
    clip: float,
    origin: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Slopes [n, 32] and [n, 10] of both layers, and what the second one reads [n, 32].

    Of cross-entropy by an MLP 64-32-10 with a sigmoid, whose second layer is centred about
    `origin`; gradients are scaled so that each record's gradient, outer products of gradients and
    what is read, is clipped.
    """
    a, b = HIDDEN * PIXELS, HIDDEN * PIXELS + HIDDEN
    c = b + CLASSES * HIDDEN
    first, bias = weights[:a].reshape(HIDDEN, PIXELS), weights[a:b]
    second, last = weights[b:c].reshape(CLASSES, HIDDEN), weights[c:]
    sigmoid = 1 / (1 + np.exp(-(inputs @ first.T + bias)))
    hidden = sigmoid - origin
    logits = hidden @ second.T + last
    soft = np.exp(logits - logits.max(1, keepdims=True))
    soft /= soft.sum(1, keepdims=True)
    soft[np.arange(len(labels)), labels] -= 1
    back = (soft @ second) * sigmoid * (1 - sigmoid)
    squares = (back**2).sum(1) * (1 + (inputs**2).sum(1))
    squares += (soft**2).sum(1) * (1 + (hidden**2).sum(1))
    scale = np.minimum(1.0, clip / np.sqrt(squares))[:, None]
    return scale * back, scale * soft, hidden


def clipped_total(
    weights: NDArray[np.float64],
    inputs: NDArray[np.float64],
    labels: NDArray[np.int64],
    clip: float,
    origin: float,
) -> NDArray[np.float64]:
    """The sum [m] of the clipped gradients of all the records."""
    back, soft, hidden = clipped_slopes(weights, inputs, labels, clip, origin)
    parts = (back.T @ inputs, back.sum(0), soft.T @ hidden, soft.sum(0))
    return np.concatenate([part.ravel() for part in parts])


class Table(torch.nn.Module):
    """A row of its own for each record: records are one-hot, and so gradients are orthogonal."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.zeros(records))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.rows


def crafted(candidate: Candidate, size: int, games: int, seed: int = 0) -> Cell:
    """Weights at which candidates have orthogonal gradients at full clip; the deployed noise.

    The record's part is made by the library's own clients; of the rest nothing is left once it is
    known. The posterior of a round is ⟨gap, e_j⟩ up to a factor, and rounds add up.
    """
    proof, deployment = candidate.certificate, candidate.deployment
    assert proof is not None
    assert deployment is not None
    (noise,) = parse_protection(candidate.protection or "none").transforms
    task = Task(Table(size), torch.nn.MSELoss(), classes=None)
    records = Records(100 * torch.eye(size), torch.full((size,), -1e3))
    sending = Sending(task, deployment.local_training, records.inputs, records.labels)
    each = sending.updates(torch.zeros(task.layout.size), torch.arange(size)[:, None])
    parts, draw, right = each.double().numpy(), np.random.default_rng(seed), 0
    deviation = noise.scale * math.sqrt(proof.survivors)
    for _ in range(games):
        tag = int(draw.integers(size))
        seen = parts[tag] + deviation * draw.normal(size=(proof.rounds, size))
        right += int((seen @ parts.T).sum(0).argmax() == tag)
    bound = proof_at(proof, 1.0, size)
    return Cell("crafted weights: orthogonal gradients at full clip", 1.0, games, right, bound)


def table(titles: str, rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in (titles.split("|"), *rows)]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    print(*lines, "", sep="\n", flush=True)
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--outside", type=int, default=300)
    parser.add_argument("--crafted", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = {"command": "benchmark", "page": "figure"}
    with Run.open(options.out, about) if options.out else nullcontext() as run:
        plan, candidate = chosen(3, run)
        proof, size = candidate.certificate, plan.claim.candidates
        assert proof is not None
        cells = played_cells(plan, candidate, options.games, options.workers, run)
    cells += [outside(plan, candidate, factor, options.outside) for factor in (0.5, 1.0)]
    cells.append(crafted(candidate, size, options.crafted))
    z, count = proof.noise_multiplier, len(cells)
    rows = [cell.row(z, count) for cell in cells]
    best = next(c for c in cells if c.factor == 1 and "exact-posterior" in c.who)
    rate = best.recovered / best.units or math.nan
    lines = [
        "# The figure beside a proof, attacked",
        "",
        f"`python benchmarks/figure.py`, {stamp()}",
        "",
        (
            f"Digits, 10 clients of 150 records in full batches, {proof.rounds} rounds, "
            f"N = {size}, participation known; sums of {plan.deployment.threshold} of 10 clients "
            f"hold {proof.survivors} honest noises. Proved at z = {z:.3f}. *Lower limit*: "
            f"Clopper-Pearson, one-sided at .05 / {count} cells."
        ),
        "",
    ]
    titles = "z|attacker|right|rate|lower limit|proof|not above the proof"
    lines += table(titles, rows)
    lines += [
        (
            f"At the proof's own noise the exact posterior is right at a rate of {rate:.3f}, "
            f"{best.proof / rate:.2f} times below the proof."
        ),
        "",
    ]
    PAGE.write_text("\n".join(lines[:-1]) + "\n")


if __name__ == "__main__":
    main()
