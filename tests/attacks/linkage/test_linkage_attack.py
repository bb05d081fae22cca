"""The shared record comes out although the others of its messages are never found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.linear_model import LinearRegression  # type: ignore[import-untyped]
from tests.attacks.conftest import make_problems
from torch import nn
from torch.nn.functional import mse_loss

from trilemma.attacks import Knowledge, Linkage, View, get
from trilemma.attacks.linkage import linkage_attack
from trilemma.attacks.linkage.marginal_likelihood import Rest
from trilemma.errors import InvalidInput
from trilemma.game.playing.games import Arena
from trilemma.game.playing.guesses import play
from trilemma.game.playing.observer import Observer
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Adversary, Noise, Observation
from trilemma.protection.specs import parse_protection
from trilemma.records.range import InputSpec
from trilemma.records.records import Records
from trilemma.scenarios import load_scenario


@pytest.mark.slow
def test_several_messages_tell_more_than_each_alone() -> None:
    """Of the demo's trainings: the guess from all rounds is nearer than those from each."""
    arena = Arena.of(load_scenario("digits"), rounds=150)
    noise = parse_protection("randomization:variance=0.003")
    observer = Observer(arena, noise, Adversary.SERVER, "public", 7)
    games = [arena.draw(number, 7) for number in range(5)]
    views = observer.views(games)
    linked = Linkage()([view for own in views for view in own], restarts=1, seed=0)
    nearer, start = 0, 0
    for game, own in zip(games, views, strict=True):
        rows = slice(start, start + len(own))
        start += len(own)
        together = linked.inputs[rows]
        assert bool((together == together[:1]).all()), "one record a training"
        alone = Linkage()([replace(view, training=None) for view in own], restarts=1, seed=0)
        truth = arena.pool.inputs[game.sought]
        gaps = [(value - truth).flatten(1).square().mean(1) for value in (together, alone.inputs)]
        nearer += bool(gaps[0][0] < gaps[1].mean())
    assert nearer >= 4


@pytest.mark.slow
def test_it_picks_right_where_searching_all_records_does_not() -> None:
    """Noise that hides a batch, but not a record that comes again (blind: 1 of 32)."""
    arena = Arena.of(load_scenario("digits"), rounds=150, candidates=38)
    noise = parse_protection("randomization:variance=0.05")
    observer = Observer(arena, noise, Adversary.SERVER, "public", 3)
    games = [arena.draw(number, 3) for number in range(32)]
    views = observer.views(games)
    right = {
        name: int(play(observer, games, views, get(name), restarts=1, seed=0).correct.sum())
        for name in ("linkage", "map")
    }
    assert right["linkage"] >= 8
    assert right["linkage"] >= right["map"]


def test_a_regression_has_its_target_read_too() -> None:
    """One linear layer, one record, hardly any noise: gradient and record are one another's."""
    draw = torch.Generator().manual_seed(0)
    mixing = torch.randn(3, 5, generator=draw)
    data = 0.5 + 0.1 * torch.randn(200, 3, generator=draw) @ mixing
    told = data @ torch.randn(5, 1, generator=draw)
    task = Task(nn.Linear(5, 1), mse_loss, None)
    weights = torch.randn(6, generator=draw)
    training = LocalTraining(batch=1)
    sent = client_update(task, weights, data[:1], told[:1], training)
    seen = Observation(sent + 1e-3 * torch.randn(6, generator=draw), noise=Noise("gaussian", 1e-3))
    public = Records(data[1:], told[1:])
    view = View(
        task, weights, seen, training, InputSpec((5,), -2.0, 3.0), Knowledge(public=public)
    )
    found = Linkage()([view], restarts=1, seed=0)
    assert found.labels is not None
    assert float((found.inputs[0, 0] - data[0]).abs().max()) < 0.1
    line = LinearRegression().fit(data[1:].numpy(), told[1:].numpy())
    assert float(found.labels[0, 0]) == pytest.approx(float(line.predict(data[:1])[0, 0]), abs=0.2)


@pytest.mark.parametrize(
    "how",
    [
        {"clients": 3, "clip": 0.5},
        {"clients": 2, "keep": 0.2, "own_places": True},
        {"training": LocalTraining("fedavg", batch=4, steps=3, lr=0.05)},
        {"training": LocalTraining(batch=4, sampling="poisson", record_clip=1.0)},
    ],
)
def test_every_way_to_send_is_read(how: dict[str, object]) -> None:
    """What is found is nearer to a record of its own message than to those of others."""
    made = make_problems(6, variance=1e-6, public=150, **how)  # type: ignore[arg-type]
    found = Linkage()(made.views, restarts=1, seed=0)
    assert found.inputs.shape == (6, 1, 64)
    assert bool(torch.isfinite(found.inputs).all())
    assert not bool(found.failed.any())
    nearest = torch.cdist(found.inputs[:, 0], made.inputs.flatten(0, 1)).reshape(6, 6, -1).amin(2)
    own = nearest.diagonal()
    others = (nearest.sum(1) - own) / 5
    assert int((own < others).sum()) >= 4


def test_of_a_long_training_some_messages_are_read() -> None:
    views = [
        replace(view, training=7, round=at)
        for at, view in enumerate(make_problems(9, variance=1e-3, public=100).views)
    ]
    found = Linkage(messages=3)(views, restarts=1, seed=0)
    some = Linkage()([views[0], views[4], views[8]], restarts=1, seed=0)
    assert found.inputs.shape == (9, 1, 64)
    assert torch.equal(found.inputs, some.inputs[:1].expand(9, -1, -1))


def test_of_a_training_no_more_messages_are_read_than_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Updates of 100 records for each message: as many numbers as three of them have."""
    made = make_problems(7, variance=1e-3, public=100, keep=0.9)
    views = [replace(view, training=7, round=at) for at, view in enumerate(made.views)]
    some = Linkage()([views[0], views[3], views[6]], restarts=1, seed=0)
    monkeypatch.setattr(linkage_attack, "_MOST", 3 * 100 * views[0].weights.numel())
    found = Linkage()(views, restarts=1, seed=0)
    assert torch.equal(found.inputs, some.inputs[:1].expand(7, -1, -1))
    monkeypatch.setattr(linkage_attack, "_MOST", 1)
    alone = Linkage()(views, restarts=1, seed=0)
    assert torch.equal(alone.inputs[0], Linkage()(views[:1], restarts=1, seed=0).inputs[0])


def test_a_large_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage_attack, "LARGE", 2000)
    with pytest.raises(InvalidInput, match="too much for the 2,410 parameters of this model"):
        Linkage()(make_problems(1, public=50).views, restarts=1, seed=0)


def test_many_public_records_teach_the_prior_and_some_of_them_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The records drawn are public ones and the same for every call, however it is seeded."""
    views = make_problems(2, variance=1e-3, public=90).views
    public = views[0].knowledge.public
    assert public is not None
    taught, of = [], Rest.of

    def watched(*args: Any) -> Any:
        taught.append(args[2].inputs)
        return of(*args)

    monkeypatch.setattr(Rest, "of", watched)
    found = [Linkage(population=30)(views, restarts=1, seed=seed) for seed in (0, 1)]
    assert [len(item) for item in taught] == [30, 30]
    assert torch.equal(*taught)
    gaps = torch.cdist(taught[0].flatten(1).to(public.inputs), public.inputs.flatten(1)).amin(1)
    assert float(gaps.max()) < 1e-6
    assert torch.equal(found[0].inputs, found[1].inputs)
    Linkage()(views, restarts=1, seed=0)
    assert len(taught[-1]) == 90


def test_public_records_are_needed() -> None:
    with pytest.raises(InvalidInput, match="the attack 'linkage' learns from public records"):
        get("linkage")(make_problems(1).views, restarts=1, seed=0)
    with pytest.raises(InvalidInput, match="restarts must be at least 1"):
        get("linkage")(make_problems(1, public=50).views, restarts=0, seed=0)
