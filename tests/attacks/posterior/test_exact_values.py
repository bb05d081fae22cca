"""Values without noise: zeros rule candidates out, and a lone share names its record."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.attacks.posterior.sparse_inputs import sparse
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import get
from trilemma.attacks.base import View
from trilemma.attacks.posterior.exact_values import exact_values_told
from trilemma.attacks.posterior.posterior_inputs import stacked, units_of
from trilemma.game.playing.games import Arena, Game
from trilemma.game.playing.guesses import play
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection

GAMES = 24


def seen(made: Scenario, spec: str) -> tuple[Observer, list[Game], list[list[View]]]:
    arena = Arena.of(made, rounds=1, candidates=30)
    observer = Observer(arena, parse_protection(spec), Adversary.SERVER, "candidates", 1, steps=2)
    games = [arena.draw(number, 1) for number in range(GAMES)]
    return observer, games, observer.views(games)


def odds(views: list[list[View]]) -> torch.Tensor:
    flat = [view for (view,) in views]
    candidate_sets = stacked(
        [view.knowledge.candidate_set for view in flat], "a candidate set", "candidates"
    )
    return exact_values_told(units_of(flat), candidate_sets)


def by_hand(view: View) -> list[int]:
    """Candidates that would have made a zero which was read something else, by autograd."""
    model = nn.Linear(20, 3)
    named = view.task.layout.unflatten(view.weights)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(named[name])
    known, update = view.observation.known, view.observation.update
    assert known is not None
    assert view.knowledge.candidate_set is not None
    out = []
    for place in range(30):
        record = view.knowledge.candidate_set[torch.tensor([place])]
        loss = cross_entropy(model(record.inputs), record.labels)
        own = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        if bool(((update == 0) & known & (own != 0)).any()):
            out.append(place)
    return out


def test_a_zero_rules_out_whoever_would_have_contributed() -> None:
    _, games, views = seen(sparse(), "compression:keep=0.1")
    found = odds(views)
    for game, (view,), row in zip(games, views, found, strict=True):
        assert (row < -10).nonzero()[:, 0].tolist() == by_hand(view)
        assert row[game.target] >= 0, "the record itself is never ruled out"
    assert (found < -10).any()


def test_a_share_to_the_last_digit_names_its_record() -> None:
    _, games, views = seen(sparse(), "compression:keep=0.1")
    found = odds(views)
    named = [int(row.argmax()) for row in found if row.max() > 0]
    truth = [game.target for game, row in zip(games, found, strict=True) if row.max() > 0]
    assert len(named) > 4
    assert named == truth


def test_the_posterior_picks_more_with_what_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    attack, (observer, games, views) = (
        get("gaussian-posterior"),
        seen(sparse(), "compression:keep=0.08"),
    )

    def won() -> int:
        return int(play(observer, games, views, attack, restarts=1, seed=0).correct.sum())

    with_them = won()
    monkeypatch.setattr(
        "trilemma.attacks.posterior.gaussian.exact_values_told", lambda *_: torch.zeros(())
    )
    assert with_them >= won() + 4


@pytest.mark.parametrize(
    "spec",
    [
        "none",
        "randomization:variance=1e-6+compression:keep=0.1",
        "secret-sharing",
    ],
)
def test_nothing_is_exact_under_noise_in_sums_and_where_all_is_known(spec: str) -> None:
    assert odds(seen(sparse(), spec)[2]).ndim == 0


def test_nothing_is_exact_after_several_steps_or_clipping() -> None:
    several = sparse(algorithm="fedavg", steps=2)
    assert odds(seen(several, "compression:keep=0.1")[2]).ndim == 0
    clipped = seen(sparse(), "compression:keep=0.1")[2]
    told = [[replace(v, observation=replace(v.observation, clip=1.0))] for (v,) in clipped]
    assert odds(told).ndim == 0
