"""A client with too few records is set apart; everybody else's game stays as it was."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma import LocalTraining, Scenario
from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Arena
from trilemma.tuning.choice.advice import limits
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request


def scenario(*sizes: int) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    records = [(torch.rand(n, 4, generator=draw), torch.arange(n) % 2) for n in sizes]
    return Scenario(nn.Linear(4, 2), cross_entropy, records, records[0], LocalTraining(batch=2))


def test_one_small_client_does_not_change_the_others_claim() -> None:
    assert Claim.of([150, 150, 9], 2, rounds=20) == Claim(20, 38, apart=(2,))
    assert Claim.of([150, 150], 2, rounds=20) == Claim(20, 38)
    assert Claim.of([150, 9, 9], 2, rounds=20).inserted, "most are small: all candidates together"
    assert Claim.of([150, 9], 2, rounds=20).inserted


def test_no_game_is_about_a_client_apart() -> None:
    arena = Arena.of(scenario(120, 8, 120), rounds=10)
    clients = {arena.draw(number, 0).client for number in range(60)}
    assert clients == {0, 2}


def test_who_is_apart_is_named_with_what_to_do() -> None:
    plan = Plan.of(scenario(120, 8, 120), Request(basis="measured", steps=2))
    (said,) = (limit for limit in limits(plan, None) if "set apart" in limit)
    assert said.startswith("Client 1 is set apart: with 8 records")
    assert "leave the client out" in said
