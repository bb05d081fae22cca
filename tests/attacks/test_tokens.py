"""Which tokens were in a batch: exactly, without protection; in doubt, under noise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.attacks.mixed_table import views_of
from torch import nn

from trilemma.attacks import DLG, Tokens
from trilemma.attacks.tokens import presence_of
from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.scenarios.digits import digits
from trilemma.scenarios.text import Reader, text


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return text(clients=2)


def test_all_tokens_of_a_batch_are_found_and_no_other(scenario: Scenario) -> None:
    views, truth = views_of(scenario, 4)
    found = Tokens()(views, restarts=1, seed=0)
    assert found.tokens is not None
    for there, batch, shown in zip(found.tokens, truth, found.inputs, strict=True):
        held = set(batch.flatten().tolist())
        assert set(torch.nonzero(there > 0.5).flatten().tolist()) == held
        assert set(shown.flatten().tolist()) == held
    assert found.inputs.shape == truth.shape


def test_the_same_views_tell_the_same_and_stay_as_they_were(scenario: Scenario) -> None:
    views, _ = views_of(scenario, 2)
    before = [view.observation.update.clone() for view in views]
    first, second = (Tokens()(views, restarts=1, seed=0) for _ in range(2))
    assert first.tokens is not None
    assert second.tokens is not None
    assert torch.equal(first.tokens, second.tokens)
    assert all(map(torch.equal, before, [view.observation.update for view in views]))


def test_noise_leaves_doubt_in_the_right_order() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 0.5 * torch.randn(400, 16, generator=generator, dtype=torch.float64)
    held = torch.arange(400) < 40
    rows[held] += torch.randn(40, 16, generator=generator, dtype=torch.float64)
    there = presence_of(rows, torch.ones_like(rows), 0.5)
    assert float(there[held].mean()) > 0.9
    assert float(there[~held].mean()) < 0.03
    # against the posterior with the true share and variance, of which 40 rows tell roughly
    energy = rows.square().sum(1)
    odds = 0.5 * energy * (1 / 0.25 - 1 / 1.25) - 8 * torch.log(torch.tensor(5.0))
    exact = torch.sigmoid(odds + torch.log(torch.tensor(1 / 9)))
    torch.testing.assert_close(there, exact, atol=0.15, rtol=0)


def test_a_token_whose_row_was_not_read_is_in_doubt() -> None:
    rows, known = torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    rows[1], rows[2], known[2] = 0.0, 0.0, 0.0
    assert presence_of(rows, known, 0.0).tolist() == [1.0, 0.0, 0.5]


def test_padding_is_never_trained_and_counts_as_there(scenario: Scenario) -> None:
    model = Reader(402, 12, 4)
    model.token = nn.Embedding(402, 64, padding_idx=0)
    views, _ = views_of(replace(scenario, model=model), 1)
    found = Tokens()(views, restarts=1, seed=0)
    assert found.tokens is not None
    assert float(found.tokens[0, 0]) == 1.0


class Tied(Reader):
    """One whose table is used for the classes as well."""

    def __init__(self) -> None:
        super().__init__(402, 12, 402)
        self.head.weight = self.token.weight


def test_an_embedding_that_is_frozen_or_shared_tells_no_tokens(scenario: Scenario) -> None:
    frozen = Reader(402, 12, 4)
    frozen.token.weight.requires_grad_(False)
    for model in (frozen, Tied()):
        made = replace(scenario, model=model, classes=None)
        assert not Tokens.applies(made.task, made.input_spec)
        views, _ = views_of(made, 1)
        with pytest.raises(InvalidInput, match="attack with 'gaussian-posterior'"):
            Tokens()(views, restarts=1, seed=0)
    assert Tokens.applies(scenario.task, scenario.input_spec)
    assert not Tokens.applies(digits(clients=2).task, digits(clients=2).input_spec)


def test_what_an_embedding_looks_up_is_not_searched(scenario: Scenario) -> None:
    views, _ = views_of(scenario, 1)
    with pytest.raises(InvalidInput, match=r"looks up the 12 entries.*'gaussian-posterior'"):
        DLG()(views, restarts=1, seed=0)
