"""What a proof against anyone costs in accuracy, with the recipe as `trilemma` chooses it.

    python benchmarks/prices.py [--case digits] [--seeds 40]
    python benchmarks/prices.py --searched --seeds 12
    python benchmarks/prices.py --case fashion-mnist --seeds 3 --device cuda [--data FOLDER]
    python benchmarks/prices.py --case fashion-mnist --seeds 1 --batch 440

A seed draws the split, the starting weights and the noise. Full batches, participation known,
leakage at most .3 at every N. With --batch a round draws so many records of each client by
chance, and participation is secret. --searched compares the rule's step with one that is chosen
by trainings on public records alone. Unprotected trainings take the best settings of a grid,
chosen on the very records that judge them: no figure favours the protected ones. The page is

docs/benchmarks/prices.md
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import nn

from trilemma.accounting.noise_calibration import noise_multiplier_for
from trilemma.entropy import Seeded
from trilemma.federation.recipe import Recipe
from trilemma.federation.server_parts import WarmStart
from trilemma.federation.training import train
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.records.records import Records
from trilemma.scenarios import load_scenario
from trilemma.tuning.recipe_rule import CLIP, recipe_under_noise

BUDGET: Final = 0.3
TUNED_ON: Final = 8  # seeds, for the steps of unprotected trainings
_NONE: Final = Protection()
SEARCHED: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
_UNCLIPPED: Final = 1e6  # no gradient is so long
Scores = torch.Tensor  # accuracy by seed


@dataclass(frozen=True)
class Case:
    """A federation, how many of its clients' noises count, and the rivals without protection."""

    scenario: str
    public: int
    test: int
    rounds: int
    honest: int
    own_steps: tuple[float, ...]
    best: tuple[Recipe, ...]


def _full(step: float, **more: object) -> Recipe:
    training = LocalTraining(batch=1, record_clip=_UNCLIPPED, sampling="full")
    return Recipe(training, step, equal_weights=True, **more)  # type: ignore[arg-type]


_DIGITS: Final = (
    *(_full(step, centring=0.3) for step in (12.0, 24.0)),
    *(_full(step, centring=0.3, momentum=0.9) for step in (1.2, 2.4)),
    _full(1.2, momentum=0.9),
    *(Recipe(LocalTraining(batch=4), step, centring=0.3, averaging=0.95) for step in (8.0, 16.0)),
)
_TABLE: Final = (
    *(_full(step) for step in (0.25, 0.5, 1.0)),
    *(_full(step, server_decay=True, momentum=0.9) for step in (0.1, 0.2)),
    *(Recipe(LocalTraining(batch=4), step, averaging=0.95) for step in (0.25, 0.5)),
)
CASES: Final = {
    "digits": Case("digits", 149, 148, 150, 6, (2.0, 3.0, 4.0, 6.0), _DIGITS),
    "breast-cancer": Case("breast-cancer", 59, 60, 60, 3, (0.25, 0.5, 1.0), _TABLE),
}


def split(base: Scenario, case: Case, seed: int) -> Scenario:
    """The scenario with records dealt out anew: public, test, and as many clients as it has."""
    pools = [*base.records, base.test_records]
    inputs = torch.cat([pool.inputs for pool in pools])
    labels = torch.cat([pool.labels for pool in pools])
    order = torch.from_numpy(Seeded(seed).generator("split").permutation(len(inputs)))
    dealt = Records(inputs[order], labels[order])
    held = case.public + case.test
    size = (len(order) - held) // len(base.records)
    places = torch.arange(len(order))
    return replace(
        base,
        clients=tuple(
            dealt[places[held + k * size : held + (k + 1) * size]]
            for k in range(len(base.records))
        ),
        public=dealt[places[: case.public]],
        test=dealt[places[case.public : held]],
    )


def accuracy(
    scenario: Scenario, recipe: Recipe, seed: int, protection: Protection = _NONE
) -> float:
    """On the test records, after a training by this recipe from this seed."""
    if recipe.local_training.sampling == "full":  # the denominator is each client's count
        training = replace(recipe.local_training, batch=len(scenario.records[0]))
        recipe = replace(recipe, local_training=training)
    trained = applied(recipe, scenario)
    (history,) = train(
        trained,
        protection,
        recipe,
        seeds=(seed,),
        weights=fresh_weights(trained, [seed]),
        public=trained.public_records if recipe.needs_public else None,
        real_rounds=0,
    )
    return history.metric


def protected(
    scenario: Scenario,
    case: Case,
    seed: int,
    honest: int,
    *,
    batch: int | None = None,
    factor: float = 1.0,
) -> tuple[float, Recipe]:
    """Accuracy and recipe under the proof's noise, `honest` clients' share of which counts.

    The step is the rule's times a `factor`; `batch` records are drawn, or all.
    """
    recipe, variance = under_proof(scenario, case, honest, batch)
    recipe = replace(recipe, server_lr=recipe.step * factor)
    return accuracy(scenario, recipe, seed, Protection((Randomization(variance),))), recipe


def under_proof(
    scenario: Scenario, case: Case, honest: int, batch: int | None = None
) -> tuple[Recipe, float]:
    """The rule's recipe, and the variance of each client's noise."""
    clients, size = len(scenario.records), len(scenario.records[0])
    drawn = size if batch is None else batch
    multiplier = noise_multiplier_for(
        BUDGET,
        rounds=case.rounds,
        q=drawn / size,
        participation="known" if batch is None else "secret",
    )
    training = LocalTraining(
        batch=drawn, record_clip=CLIP, sampling="full" if batch is None else "poisson"
    )
    noise = multiplier / (drawn * math.sqrt(honest * clients))
    recipe = recipe_under_noise(scenario, training, noise, rounds=case.rounds)
    return recipe, (multiplier * CLIP / drawn) ** 2 / honest


def searched(scenario: Scenario, case: Case, seed: int) -> float:
    """The factor of the step that is best for clients that hold two thirds of public records.

    Their mean has the noise of the real clients' mean; the last third judges.
    """
    own = scenario.public_records
    places = torch.arange(len(own))
    copies = [own[places[places % 3 > 0]]] * len(scenario.records)
    alike = replace(scenario, clients=copies, test=own[places[::3]], public=None)
    recipe, variance = under_proof(replace(scenario, public=None), case, case.honest)
    noise = Protection((Randomization(variance),))
    tried = {
        factor: accuracy(alike, replace(recipe, server_lr=recipe.step * factor), seed, noise)
        for factor in SEARCHED
    }
    return max(SEARCHED, key=lambda factor: (tried[factor], -abs(math.log(factor))))


def on_searched(case: Case, seeds: int, say: Callable[[str], None]) -> None:
    """What a search on public records alone gains or loses against the rule."""
    base, gains, factors = load_scenario(case.scenario), [], []
    for seed in range(seeds):
        one = split(base, case, seed)
        bare, factor = replace(one, public=None), searched(one, case, seed)
        found, rule = (
            protected(bare, case, seed, case.honest, factor=value)[0] for value in (factor, 1.0)
        )
        gains.append(found - rule)
        factors.append(factor)
    say(f"factors {factors}: {interval(torch.tensor(gains))} points over the rule")


def best_of(
    splits: Sequence[Scenario], recipes: Sequence[Recipe], case: Case
) -> tuple[Scores, Recipe]:
    """The best recipe without protection on the first seeds, and its accuracy on all."""
    recipes = [replace(recipe, rounds=case.rounds) for recipe in recipes]
    some = {
        recipe: [accuracy(one, recipe, seed) for seed, one in enumerate(splits[:TUNED_ON])]
        for recipe in recipes
    }
    best = max(recipes, key=lambda recipe: sum(some[recipe]))
    rest = [accuracy(one, best, seed) for seed, one in enumerate(splits) if seed >= TUNED_ON]
    return torch.tensor(some[best] + rest), best


def fashion_mnist(folder: str | None, device: str) -> Scenario:
    """10 clients x 5,500 records and 2,500 public ones, a tanh CNN of 26,010 parameters."""
    base = load_scenario("fashion-mnist", folder=folder)
    inputs = torch.cat([client.inputs for client in base.records])
    labels = torch.cat([client.labels for client in base.records])
    parts = [
        *(
            Records(*own)
            for own in zip(torch.split(inputs, 5500), torch.split(labels, 5500), strict=True)
        )
    ]
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10)),
    )
    return Scenario(
        model,
        nn.functional.cross_entropy,
        clients=parts[:10],
        public=parts[10][torch.arange(2500)],
        test=base.test_records,
        device=device,
        name="fashion-mnist",
    )


def on_fashion_mnist(
    seeds: int,
    folder: str | None,
    device: str,
    say: Callable[[str], None],
    *,
    batch: int | None = None,
    rounds: int = 500,
) -> None:
    """Accuracy with and without public records; 6 of 10 noises count."""
    scenario = fashion_mnist(folder, device)
    case = Case("fashion-mnist", 2500, 10_000, rounds, 6, (), ())
    for public, one in ((True, scenario), (False, replace(scenario, public=None))):
        for seed in range(seeds):
            begun = time.perf_counter()
            value, recipe = protected(one, case, seed, case.honest, batch=batch)
            took = time.perf_counter() - begun
            say(f"public {public}, seed {seed}: {100 * value:.2f} in {took:.0f} s; {recipe}")


def interval(values: Scores) -> str:
    """The mean and 1.96 standard errors over seeds, in points."""
    reach = 1.96 * float(values.std()) / math.sqrt(len(values))
    return f"{100 * float(values.mean()):.1f} ± {100 * reach:.1f}"


def rows(case: Case, seeds: int, say: Callable[[str], None]) -> list[str]:
    """A table of a case: accuracy, and what is lost against both unprotected trainings."""
    base = load_scenario(case.scenario)
    splits = [split(base, case, seed) for seed in range(seeds)]
    bare = [replace(one, public=None) for one in splits]
    own, own_recipe = best_of(
        bare,
        [
            Recipe(LocalTraining(batch=4), step, server_decay=decay)
            for step in case.own_steps
            for decay in (False, True)
        ],
        case,
    )
    best, best_recipe = best_of(bare, case.best, case)
    helped = [
        replace(
            recipe,
            warm_start=WarmStart(300, 0.05, 0.9),
            centring="public" if recipe.centring else None,
        )
        for recipe in case.best
    ]
    started, started_recipe = best_of(splits, helped, case)
    for name, recipe in (("own", own_recipe), ("best", best_recipe), ("public", started_recipe)):
        say(f"{case.scenario}, {name}: {recipe}")
    lines = [
        "| training | accuracy | lost against own batch | lost against best unprotected |",
        "|---|---|---|---|",
        f"| unprotected, own batch of 4, best step | {100 * float(own.mean()):.1f} | | |",
        f"| unprotected, the same freedoms | {100 * float(best.mean()):.1f} | | |",
        f"| the same with public records | {100 * float(started.mean()):.1f} | | |",
    ]
    for what, honest in (("sums", case.honest), ("single messages", 1)):
        for public, scenarios, rival in ((False, bare, best), (True, splits, started)):
            done = [protected(one, case, seed, honest) for seed, one in enumerate(scenarios)]
            values = torch.tensor([value for value, _ in done])
            say(f"{case.scenario}, {what}, public {public}: {done[0][1]}")
            name = f"proved, {what}" + (f", {case.public} public records" if public else "")
            lines.append(
                f"| {name} | {100 * float(values.mean()):.1f} | {interval(own - values)} | "
                f"{interval(rival - values)} |"
            )
            say(lines[-1])
    return lines


def main() -> None:
    """Print the tables; with --write, the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*CASES, "fashion-mnist"], action="append")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--device", default="cpu", help="of fashion-mnist alone")
    parser.add_argument("--data", help="the folder of fashion-mnist")
    parser.add_argument("--batch", type=int, help="of fashion-mnist alone: drawn by chance")
    parser.add_argument("--searched", action="store_true", help="search on public records")
    options = parser.parse_args()

    def say(line: str) -> None:
        print(line, flush=True)

    for name in options.case or CASES:
        if name == "fashion-mnist":
            on_fashion_mnist(options.seeds, options.data, options.device, say, batch=options.batch)
            continue
        if options.searched:
            on_searched(CASES[name], options.seeds, say)
            continue
        begun = time.process_time()
        print(*rows(CASES[name], options.seeds, say), sep="\n")
        print(f"{name}: {options.seeds} seeds, {time.process_time() - begun:.0f} CPU seconds")


if __name__ == "__main__":
    main()
