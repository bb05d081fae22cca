"""A server that was stopped goes on from its last good round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Message
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, Result
from tests.deployment.flower.harness import (
    MODEL,
    NODES,
    SHARING,
    DirectGrid,
    initial,
    small_paillier,
    toy_app,
    with_ledgers,
    with_pins,
)

from trilemma.crypto.keyfiles import save_private
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.deployment.flower import ProtectedGrid, Terms
from trilemma.deployment.nodes.checkpoint import load_checkpoint
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.nodes.round_events import epsilon_of
from trilemma.entropy import System
from trilemma.errors import BudgetSpent, InvalidInput
from trilemma.protection.protection import Protection

NOISE = Terms.of(
    "randomization:variance=1e-4,clip=5.0+secret-sharing:max_weight=100", weighting="equal"
)
STRATEGIES: dict[str, Callable[..., FedAvg]] = {
    "FedAvg": FedAvg,
    "FedAdam": lambda **few: FedAdam(beta_1=0.9, beta_2=0.99, **few),
    "FedAvgM": lambda **few: FedAvgM(server_momentum=0.9, server_learning_rate=0.5, **few),
}


class Stopped(KeyboardInterrupt):
    """What ends a server."""


def run(
    path: Path | None,
    rounds: int,
    *,
    terms: Terms = SHARING,
    name: str = "FedAvg",
    stop: Callable[[int, Message], Message | None] = lambda number, message: message,
    dressed: Callable[[DirectGrid], DirectGrid] = lambda grid: grid,
    public: PublicKey | None = None,
) -> tuple[Result, DirectGrid]:
    """A server's whole life, on nodes that were restarted with it."""
    direct = dressed(DirectGrid(toy_app(terms), on_message=stop))
    grid = ProtectedGrid(direct, terms, public_key=public, checkpoint=path)
    few: dict[str, Any] = {"min_train_nodes": 4, "min_available_nodes": 4}
    strategy = STRATEGIES[name](fraction_evaluate=0.0, **few)
    left = grid.rounds_left(rounds)
    return strategy.start(grid, grid.resumed(initial()), num_rounds=left), direct


def stopping(exchange: int) -> Callable[[int, Message], Message | None]:
    def stop(number: int, message: Message) -> Message | None:
        if number == exchange:
            raise Stopped
        return message

    return stop


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_stopped_in_a_round_ends_where_an_unbroken_one_does(
    name: str, tmp_path: Path
) -> None:
    whole, _ = run(None, 5, name=name)
    path = tmp_path / "state.npz"
    with pytest.raises(Stopped):
        run(path, 5, name=name, stop=stopping(9))  # 4 + 2 + 2 exchanges, then round 4
    state = load_checkpoint(path)
    assert state is not None
    assert state.rounds == 3
    resumed, direct = run(path, 5, name=name)
    for key in MODEL:
        np.testing.assert_array_equal(resumed.arrays[key].numpy(), whole.arrays[key].numpy())
    rounds = [
        batch[0].content.config_records["config"]["server-round"]
        for batch in direct.sent
        if "config" in batch[0].content
    ]
    assert rounds == [4, 5], "nodes are told the round of the whole training"
    assert len(resumed.train_metrics_clientapp) == 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_last_round_of_a_run_is_written_down_whatever_the_strategy(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "state.npz"
    run(path, 2, name=name)
    state = load_checkpoint(path)
    assert state is not None
    assert state.rounds == 2
    resumed, _ = run(path, 4, name=name)
    whole, _ = run(None, 4, name=name)
    np.testing.assert_array_equal(resumed.arrays["bias"].numpy(), whole.arrays["bias"].numpy())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_resumed_run_whose_rounds_all_fail_ends_with_the_model_it_began_with(
    name: str, tmp_path: Path
) -> None:
    """Momentum of rounds before it does not move it, and the next run goes on with it."""
    path = tmp_path / "state.npz"
    good, _ = run(path, 2, name=name)

    def lose(number: int, message: Message) -> Message | None:
        return None if message.metadata.dst_node_id in NODES[:2] else message

    failed, _ = run(path, 4, name=name, stop=lose)
    told = [value["survivors"] for value in failed.train_metrics_clientapp.values()]
    assert told == [0, 0]
    for key in MODEL:
        np.testing.assert_array_equal(failed.arrays[key].numpy(), good.arrays[key].numpy())
    resumed, _ = run(path, 3, name=name)
    whole, _ = run(None, 3, name=name)
    np.testing.assert_array_equal(resumed.arrays["bias"].numpy(), whole.arrays["bias"].numpy())


def test_a_strategy_that_served_another_grid_writes_into_its_own_file(tmp_path: Path) -> None:
    strategy = FedAdam(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    for name, rounds in (("one", 1), ("two", 2)):
        grid = ProtectedGrid(DirectGrid(toy_app(SHARING)), SHARING, checkpoint=tmp_path / name)
        strategy.start(grid, initial(), num_rounds=rounds)
    kept = [load_checkpoint(tmp_path / name) for name in ("one", "two")]
    assert [item and item.rounds for item in kept] == [1, 2]
    assert kept[0] is not None
    assert kept[1] is not None
    assert not np.array_equal(kept[0].model["bias"], kept[1].model["bias"])


def test_rounds_that_were_begun_are_counted_over_runs(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    with pytest.raises(Stopped):
        run(path, 4, terms=NOISE, stop=stopping(5))  # the second round's update was asked for
    result, _ = run(path, 4, terms=NOISE)
    one = NOISE.event(4)
    for number in (1, 2, 3):
        spent = result.train_metrics_clientapp[number]["dp-epsilon"]
        assert spent == pytest.approx(epsilon_of([one] * (2 + number), NOISE.delta))
    state = load_checkpoint(path)
    assert state is not None
    assert (state.rounds, len(state.events)) == (4, 5)


def test_a_failed_round_is_not_the_last_good_one(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"

    def lose(number: int, message: Message) -> Message | None:
        return None if number == 4 and message.metadata.dst_node_id in NODES[:2] else message

    run(path, 2, stop=lose)
    state = load_checkpoint(path)
    assert state is not None
    assert (state.rounds, len(state.events)) == (1, 2)
    once, _ = run(None, 1)
    for key in MODEL:
        np.testing.assert_array_equal(state.model[key], once.arrays[key].numpy())


def test_a_run_that_is_done_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    run(path, 2)
    with pytest.raises(InvalidInput, match=r"has the model after 2 rounds, and 2 are asked for"):
        run(path, 2)
    assert len(run(path, 3)[0].train_metrics_clientapp) == 1


def test_a_budget_that_is_spent_ends_a_resumed_run(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    two = epsilon_of([NOISE.event(4)] * 2, NOISE.delta)
    terms = Terms.of(NOISE, budget=1.01 * two)
    result, _ = run(path, 2, terms=terms, dressed=lambda grid: with_ledgers(grid, tmp_path))
    assert len(result.train_metrics_clientapp) == 2
    with pytest.raises(BudgetSpent, match=r"no rounds left: another round would bring the data"):
        run(path, 3, terms=terms)


def test_another_model_or_a_damaged_file_is_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.npz"
    run(path, 1)
    other = initial()
    del other["bias"]
    grid = ProtectedGrid(DirectGrid(toy_app(SHARING)), SHARING, checkpoint=str(path))
    with pytest.raises(InvalidInput, match="another model, which differs in 'bias'"):
        grid.resumed(other)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InvalidInput, match="is damaged, or is none"):
        run(path, 2)


def test_a_model_in_a_checkpoint_is_not_replaced_by_another(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    run(path, 2)
    kept = path.read_bytes()
    grid = ProtectedGrid(DirectGrid(toy_app(SHARING)), SHARING, checkpoint=path)
    with pytest.raises(InvalidInput, match=r"2 rounds, which another would replace; start with"):
        FedAvg(min_available_nodes=4).start(grid, initial(), num_rounds=1)
    assert path.read_bytes() == kept


def test_a_disk_that_fails_stops_rounds_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result, direct = run(tmp_path / "none" / "state.npz", 2)
    assert caplog.text.count("cannot be written (No such file or directory)") == 2
    assert all("config" not in item.content for batch in direct.sent for item in batch)
    np.testing.assert_array_equal(result.arrays["bias"].numpy(), MODEL["bias"])


def test_a_blind_server_has_nothing_to_keep(tmp_path: Path) -> None:
    terms = Terms.of(Protection((), small_paillier("blind")))
    public = PrivateKey.generate(System(), bits=512, insecure=True).public
    with pytest.raises(InvalidInput, match="cannot read its model has none to keep"):
        ProtectedGrid(
            DirectGrid(toy_app(terms)), terms, public_key=public, checkpoint=tmp_path / "state"
        )


def test_a_key_file_serves_nodes_that_were_restarted(tmp_path: Path) -> None:
    key = PrivateKey.generate(System(), bits=512, insecure=True)
    save_private(key, tmp_path / "key")
    terms, path = Terms.of(Protection((), small_paillier())), tmp_path / "state.npz"

    def keyed(grid: DirectGrid) -> DirectGrid:
        for context in grid.contexts.values():
            context.node_config = {"trilemma-key": str(tmp_path / "key")}
        return grid

    whole, _ = run(None, 3, terms=terms, dressed=keyed, public=key.public)
    with pytest.raises(Stopped):
        run(path, 3, terms=terms, stop=stopping(3), dressed=keyed, public=key.public)
    resumed, _ = run(path, 3, terms=terms, dressed=keyed, public=key.public)
    assert len(resumed.train_metrics_clientapp) == 2
    np.testing.assert_array_equal(resumed.arrays["bias"].numpy(), whole.arrays["bias"].numpy())


def test_identities_and_ledgers_of_nodes_survive_with_it(tmp_path: Path) -> None:
    """All processes of all sides end in the midst of a round, and start again."""
    budget = 1.01 * epsilon_of([NOISE.event(4)] * 3, NOISE.delta)
    terms, path = Terms.of(NOISE, budget=budget), tmp_path / "state.npz"
    grids: list[DirectGrid] = []

    def dressed(grid: DirectGrid) -> DirectGrid:
        pinned = with_pins(grid, tmp_path) if not grids else grid
        for node, context in pinned.contexts.items():
            if grids:
                context.node_config = dict(grids[0].contexts[node].node_config)
            context.run_id += len(grids)  # Flower gives each run its number
        grids.append(with_ledgers(pinned, tmp_path))
        return grids[-1]

    with pytest.raises(Stopped):
        run(path, 4, terms=terms, stop=stopping(5), dressed=dressed)  # round 2 is summed, not open
    for node in NODES:
        (event,) = Ledger(tmp_path / f"ledger-{node}").events("records")
        assert event.rounds == 2
    result, _ = run(path, 4, terms=terms, dressed=dressed)
    told = [value["survivors"] for value in result.train_metrics_clientapp.values()]
    assert told == [4], "of three rounds that the budget has, two were begun before"
    for node in NODES:
        (event,) = Ledger(tmp_path / f"ledger-{node}").events("records")
        assert event.rounds == 3
