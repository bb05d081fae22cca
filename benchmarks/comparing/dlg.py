"""DLG: our batched engine against one unit at a time, tuned alike, and as it was published."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn
from torch.nn.functional import log_softmax, softmax

from benchmarks.attacks import digits, fashion, sought_at_20_db
from benchmarks.pages.tables import Row, Table, once
from trilemma.attacks import Reconstructions, View, get
from trilemma.attacks.dlg import DLG
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection

__all__ = ["as_published", "compared", "one_by_one", "views_of"]

NOTE = """\
One record a message, a fresh model each; recovered: at 20 dB of PSNR or more. Ratio: CPU seconds a
unit over those of our batches. All but the published DLG have our start, history, tolerance and
number of evaluations ({efforts}). *Our loss* adds to the relative distance how far inputs are out
of their range, which tells under noise and costs evaluations without; so torch's L-BFGS (strong
Wolfe line search, the better of its two) is shown without it as well. The published DLG starts
from standard normal noise and makes 300 calls of torch's L-BFGS, of up to 20 iterations each,
whatever the loss."""

Attacker = Callable[[View, int], torch.Tensor]


class Solved(Exception):
    """Ends torch's optimiser at the point where the loss is small enough."""


def one_by_one(view: View, seed: int, iterations: int, *, ranged: bool = True) -> torch.Tensor:
    """Inputs [S, *shape] by torch.optim.LBFGS with what our DLG knows: start, loss, stopping."""
    effort, noise = DLG(), view.observation.noise
    kind = view.weights.dtype if noise is None else torch.float64
    draw = torch.Generator().manual_seed(seed)
    x = 0.5 + 0.1 * torch.randn(view.records, *view.input_spec.shape, generator=draw, dtype=kind)
    label = 0.1 * torch.randn(view.records, view.task.classes or 1, generator=draw, dtype=kind)
    energy = view.observation.update.to(kind).square().sum()
    distance = _distance(view, kind)
    optimiser = torch.optim.LBFGS(
        [x.requires_grad_(), label.requires_grad_()],
        max_iter=iterations,
        max_eval=iterations,
        tolerance_grad=0,
        tolerance_change=1e-14 if noise is None else 0.01 * noise.scale**2 / float(energy),
        history_size=effort.history if noise is None else 20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = distance(x, label) / energy
        if ranged:
            loss = loss + (x - x.clamp(0, 1)).square().sum()
        if loss <= effort.tolerance:
            raise Solved
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with suppress(Solved):
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    return x.detach().clamp(0, 1).to(view.weights)


def as_published(view: View, seed: int) -> torch.Tensor:
    """Zhu et al. (2019): inputs [S, *shape] after 300 steps of torch.optim.LBFGS with rate 1."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(view.records, *view.input_spec.shape, generator=draw).requires_grad_()
    label = torch.randn(view.records, view.task.classes or 1, generator=draw).requires_grad_()
    distance = _distance(view, view.weights.dtype)
    optimiser = torch.optim.LBFGS([x, label], lr=1)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = distance(x, label)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(300):
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    return torch.nan_to_num(x.detach()).clamp(0, 1)


def _distance(
    view: View, kind: torch.dtype
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """(inputs, logits) to the squared distance of their gradient from the observed one."""
    model = copy.deepcopy(view.task.model).to(kind)
    nn.utils.vector_to_parameters(view.weights.to(kind), model.parameters())
    observed = list(view.task.layout.unflatten(view.observation.update.to(kind)).values())
    parameters = list(model.parameters())

    def distance(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        loss = -(softmax(label, -1) * log_softmax(model(x), -1)).sum(1).mean()
        made = torch.autograd.grad(loss, parameters, create_graph=True)
        parts = [(one - two).square().sum() for one, two in zip(made, observed, strict=True)]
        return torch.stack(parts).sum()

    return distance


def views_of(
    scenario: Scenario, units: int, protection: str = "none"
) -> tuple[list[View], Callable[[torch.Tensor], float]]:
    """Messages of one record, and the share of records that reconstructions [U, 1, ...] give."""
    arena = Arena.of(scenario.with_local_training(batch=1), rounds=1)
    told = parse_protection(protection)
    observer = Observer(arena, told, Adversary.SERVER, "nothing", 0, steps=0)
    games = [arena.draw(number, 0) for number in range(units)]

    def recovered(inputs: torch.Tensor) -> float:
        none = torch.zeros(len(inputs))
        found = Reconstructions(inputs, None, none, none.bool())
        return sought_at_20_db(found, arena, games[: len(inputs)])

    return [own for own, *_ in observer.views(games)], recovered


@dataclass(frozen=True, eq=False)
class Case:
    """A federation and its effort: units of our batches, of one by one, of the published DLG."""

    title: str
    scenario: Scenario
    protection: str
    iterations: int
    units: tuple[int, int, int]

    def rows(self, repeats: int) -> list[Row]:
        many, some, few = self.units
        views, recovered = views_of(self.scenario, many, self.protection)
        single, batched = (
            get("dlg", iterations=self.iterations, slots=slots) for slots in (1, DLG.slots)
        )
        found = batched(views, restarts=1, seed=0).inputs  # and what is made once in a process
        turns = [once(lambda: batched(views, restarts=1, seed=0)) for _ in range(repeats)]
        together = statistics.median(turns)

        def measured(attack: Attacker, count: int) -> tuple[int, float, float]:
            attack(views[0], 0)
            made: list[torch.Tensor] = []
            each = enumerate(views[:count])
            spent = once(lambda: made.extend(attack(view, seed) for seed, view in each))
            return count, recovered(torch.stack(made)), spent / count

        free = partial(one_by_one, iterations=self.iterations, ranged=False)
        ranged = partial(one_by_one, iterations=self.iterations)
        rows = {
            "ours, batches of up to 64": (many, recovered(found), together / many),
            "ours, one by one": measured(
                lambda view, seed: single([view], restarts=1, seed=seed).inputs[0], some
            ),
            "torch's L-BFGS, our loss": measured(ranged, some),
            "torch's L-BFGS, without the range": measured(free, some),
        }
        if few:
            rows["DLG as published"] = measured(as_published, few)
        return [
            (
                self.title,
                name,
                f"{count}",
                f"{quality:.2f}",
                f"{recovered(found[:count]):.2f}",
                f"{spent:.3g}",
                f"{spent * many / together:.1f}",
            )
            for name, (count, quality, spent) in rows.items()
        ]


def compared(quick: bool) -> Iterable[Table]:
    small, large = digits("cpu", 0).scenario, fashion("", "cpu", 0, relu=False).scenario
    noisy = "randomization:variance=0.001"
    cases = [
        Case("digits, MLP of 2,410 parameters", small, "none", 300, (128, 24, 8)),
        Case("the same, noise of variance 0.001", small, noisy, 300, (128, 24, 0)),
        Case("Fashion-MNIST, LeNet of 13,426", large, "none", 600, (12, 4, 3)),
    ]
    if quick:
        cases = [replace(case, units=(4, 2, 1), iterations=20) for case in cases]
    efforts = ", ".join(f"{case.iterations}" for case in cases)
    yield Table(
        "DLG: batches against one by one",
        "federation | attack | units | recovered | ours on the same | CPU s a unit | ratio",
        [row for case in cases for row in case.rows(1 if quick else 2)],
        NOTE.format(efforts=efforts),
    )
