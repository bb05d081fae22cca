"""A node's look at models: honest trainings, plain attacks, and one that knows the limits."""

from __future__ import annotations

import copy
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what pages and tests share

from benchmarks.pages.stamp import machine, stamp
from trilemma.attacks.crafted import craft, hidden_linear, shown_rows
from trilemma.deployment.nodes.model_check import LIMITS, Findings, Probes, Seen, look
from trilemma.federation.cohort_updates import Sending
from trilemma.federation.cohorts import Cohorts, pooled
from trilemma.federation.server import Server
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, client_update
from trilemma.records.records import Records
from trilemma.scenarios import load_scenario
from trilemma.scenarios.networks import mlp

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "model_check.md"
TRAININGS: Final = 20
ATTACKS: Final = 100
KNOWING: Final = {"trap in 45 % of the units": "trap", "imprint in 45 % of the units": "imprint"}
KINDS: Final = ("imprint", "trap", "overflow", "trapdoor", *KNOWING)  # the last know the limits
NOISE: Final = 1.2e-3  # of the mean on each coordinate, in every other training: a proof's


def scenarios() -> dict[str, tuple[Scenario, int]]:
    """By name, with the rounds that are trained."""
    digits, fashion = load_scenario("digits-mlp"), load_scenario("fashion-mnist", batch=8)
    return {
        "digits": (digits, 150),
        "digits, 128 ReLUs": (_with(digits, mlp(64, 128, 10, torch.nn.ReLU)), 150),
        "Fashion-MNIST, LeNet": (fashion, 50),
        "Fashion-MNIST, MLP": (_with(fashion, mlp(784, 64, 10, torch.nn.ReLU)), 50),
        "breast-cancer": (load_scenario("breast-cancer"), 100),
        "text": (load_scenario("text"), 60),
    }


def _with(scenario: Scenario, model: torch.nn.Module) -> Scenario:
    return replace(scenario, model=model, initialise=None)


def training(scenario: Scenario, seed: int, rounds: int) -> Iterator[torch.Tensor]:
    """The weights [m] that clients are sent, round by round."""
    recipe = own_recipe(scenario)
    sending = Sending(scenario.task, recipe.local_training, *pooled(scenario))
    server = Server(scenario.task, recipe, rounds, None)
    clients = tuple(range(len(scenario.records)))
    cohorts = Cohorts(scenario, recipe, len(clients), seed, "looks")
    weights = server.start(fresh_weights(scenario, [seed]))
    draw = torch.Generator().manual_seed(seed)
    for number in range(rounds):
        yield weights[0]
        mean = sending.updates(weights[0], *cohorts.rows(number, clients)).mean(0)
        if seed % 2:
            mean = mean + NOISE * torch.randn(mean.shape, generator=draw)
        weights = server.step(weights, mean[None], number)


def seen_by(
    scenario: Scenario, weights: torch.Tensor, seed: int, earlier: Seen | None
) -> Findings:
    """A node's look, with half of the public records as probes; the other half is the server's."""
    model = copy.deepcopy(scenario.task.model)
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name, values in scenario.task.layout.unflatten(weights).items():
            named[name].copy_(values)
    public = scenario.public_records
    half = len(public) // 2
    probes = Probes.of(public.inputs[:half], public.labels[:half], seed)
    return look(model, scenario.loss, probes, earlier)


def honest(scenario: Scenario, rounds: int) -> tuple[int, int, dict[str, list[float]], float]:
    """Looks at honest trainings: how many, with how many alarms, the measures, seconds a look."""
    measures, looks, alarms, seconds = defaultdict(list), 0, 0, 0.0
    for seed in range(TRAININGS):
        seen: Seen | None = None
        for number, weights in enumerate(training(scenario, seed, rounds)):
            start = time.process_time()
            found = seen_by(scenario, weights, 1000 * seed + number, seen)
            seconds += time.process_time() - start
            seen, looks = found.seen, looks + 1
            alarms += bool(found.alarms)
            for name, value in found.measures.items():
                measures[name].append(value)
    return looks, alarms, measures, seconds / looks


def adapted(
    scenario: Scenario, honestly: torch.Tensor, crafted: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Only so many crafted units that the middle one is honest, with what is behind these units.

    And which units these are.
    """
    name, layout = hidden_linear(scenario.task.model), scenario.task.layout
    own, made = layout.unflatten(honestly.clone()), layout.unflatten(crafted)
    size = len(own[f"{name}.bias"])
    units = torch.arange(0, size, 2)[: int(0.45 * size)]
    for part, value in own.items():
        if part in (f"{name}.weight", f"{name}.bias"):
            value[units] = made[part][units]
        elif value.ndim == 2 and value.shape[1] == size:
            value[:, units] = made[part][:, units]
    return layout.flatten(own), units


def attacked(scenario: Scenario, rounds: int) -> dict[str, tuple[int, float]]:
    """By kind of crafted model how many of 100 stand out, and the share of 40 records read."""
    noticed, read = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    pool, public = scenario.pooled(), scenario.public_records
    at = {(k * rounds) // 10 for k in range(10)}
    for trial in range(ATTACKS // 10):
        seen: Seen | None = None
        for number, weights in enumerate(training(scenario, 500 + trial, rounds)):
            if number not in at:
                seen = seen_by(scenario, weights, number, seen).seen
                continue
            draw = torch.Generator().manual_seed(1000 * trial + number)
            batch = pool[torch.randperm(len(pool), generator=draw)[:40]]
            own = torch.cat([batch.inputs[:1], public.inputs[len(public) // 2 :]])
            for kind in KINDS:
                what = KNOWING.get(kind, kind)
                made = craft(what, scenario.task, weights, own, 1000 * trial + number)
                units = None
                if kind in KNOWING:
                    made, units = adapted(scenario, weights, made)
                noticed[kind] += bool(seen_by(scenario, made, number, seen).alarms)
                if not scenario.input_spec.discrete:
                    read[kind] += _read(scenario, made, batch, units)
            seen = seen_by(scenario, weights, number, seen).seen
    return {kind: (noticed[kind], read[kind] / ATTACKS) for kind in KINDS}


def _read(
    scenario: Scenario, weights: torch.Tensor, batch: Records, units: torch.Tensor | None
) -> float:
    """The share of a batch's records that its bare mean gradient shows."""
    count = LocalTraining(batch=len(batch))
    update = client_update(scenario.task, weights, batch.inputs, batch.labels, count)
    rows = shown_rows(scenario.task, weights, update, units)
    if not len(rows):
        return 0.0
    near = torch.cdist(rows, batch.inputs.flatten(1).double(), p=float("inf"))
    return float((near.amin(0) < 0.02).double().mean())


def main() -> None:
    """Write the page."""
    every = scenarios()
    rows, attacks, total, alarms = [], [], 0, 0
    for name, (scenario, rounds) in every.items():
        looks, wrong, measures, seconds = honest(scenario, rounds)
        total, alarms = total + looks, alarms + wrong
        ends = {key: (min(measure), max(measure)) for key, measure in measures.items()}
        rows.append(
            f"| {name} | {looks} | {wrong} | {ends['alike'][1]:.2f} | {ends['slices'][0]:.3f} | "
            f"{ends['loudest'][1]:.3f} | {ends['scale'][1]:.2f} | {ends['step'][1]:.2f} | "
            f"{ends['jump'][1]:.2f} | "
            f"{1000 * seconds:.0f} |"
        )
        print(rows[-1], file=sys.stderr, flush=True)
    for name, (scenario, rounds) in every.items():
        if hidden_linear(scenario.task.model) is None:
            continue
        for kind, (noticed, read) in attacked(scenario, rounds).items():
            told = "" if scenario.input_spec.discrete else f"{100 * read:.0f} %"
            attacks.append(f"| {name} | {kind} | {noticed} | {told} |")
            print(attacks[-1], file=sys.stderr, flush=True)
    lines = [
        "# A node's look at the model",
        "",
        f"`python benchmarks/model_check.py` ({stamp()}; {machine()})",
        "",
        (
            f"Limits: alike {LIMITS.alike}, slices {LIMITS.slices}, loudest {LIMITS.loudest}, "
            f"scale {LIMITS.scale:g}, step {LIMITS.step:g}, jump {LIMITS.jump:g} (`Limits` says "
            "of what). Probes are one half of the public records with labels at random; crafted "
            "models are made with the other half."
        ),
        "",
        "## Honest trainings",
        "",
        (
            f"{TRAININGS} trainings each, a look in every round, by nodes with probes of their "
            "own; every other training with a proof's noise. The most extreme measures of all "
            "looks, and CPU time of one."
        ),
        "",
        "| trained | looks | alarms | alike | slices | loudest | scale | step | jump | ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"{alarms} alarms in {total:,} looks. The limit of `jump` was set by these trainings.",
        "",
        "## Crafted models",
        "",
        (
            f"{ATTACKS} of each kind: ten a training, the first of them in its first round, in "
            "which there is nothing to compare with. *Read*: the share of 40 records that a bare "
            "sum shows with no entry off by more than .02."
        ),
        "",
        "| model | crafted | noticed of 100 | read |",
        "|---|---|---|---|",
        *attacks,
        "",
        "## What a look cannot see",
        "",
        (
            "An attacker that knows the limits crafts fewer than half of a layer's units, in the "
            "first round, in which there is nothing to compare with, or by small steps from round "
            "to round. There a trapdoor for one record, no larger than other units, is silent on "
            "every probe. LeNet has no hidden linear layer, so that none of these is made in it; "
            "nothing was tried on convolutions."
        ),
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
