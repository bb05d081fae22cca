"""What a look at a scenario says: attacks with their speed, what is left out and why, the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.cli.own_scenario import small
from torch import nn

from trilemma import LocalTraining, Scenario
from trilemma.errors import InvalidInput
from trilemma.execution.pool import WorkerPool
from trilemma.tuning import check_report
from trilemma.tuning.request import Request
from trilemma.tuning.time_left import Kind
from trilemma.tuning.unit_times import Timed


@pytest.fixture(autouse=True)
def _known_speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(
        _: Any,
        __: Any,
        every: Iterable[Kind],
        others: Iterable[Kind],
        tell: Callable[[str], None],
    ) -> Timed:
        tell("timing")
        kinds = (*every, *others)
        return Timed({kind: 0.5 * (1 + (kind.rounds > 1)) for kind in kinds}, frozenset())

    monkeypatch.setattr(check_report, "timed", timed)
    monkeypatch.setattr(WorkerPool, "submit", lambda *_: None)  # starts no process


def alone() -> Scenario:
    """One client with few records, a convolution, and targets that are no classes."""
    inputs = torch.rand(12, 1, 6, 6)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(32, 1))
    data = inputs, inputs.mean((1, 2, 3))[:, None]
    return Scenario(model, nn.functional.mse_loss, [data], data, LocalTraining(batch=2), rounds=4)


def test_statistics_that_are_sent_count_as_parameters() -> None:
    inputs = torch.rand(40, 1, 6, 6)
    layers = (nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Sigmoid(), nn.Flatten(), nn.Linear(32, 2))
    given = (nn.Sequential(*layers), nn.functional.cross_entropy)
    data = inputs, torch.arange(40) % 2
    made = Scenario(*given, [data], data, LocalTraining(batch=4), rounds=4, sends_statistics=True)
    found = check_report.examine(lambda: made, Request(preset="quick"), lambda _: None)
    assert found.work["tune --quick"].least > 0


def test_a_federation_that_lacks_nothing() -> None:
    told: list[str] = []
    endless = Request(minutes=1e6)
    found = check_report.examine(lambda: small(show_records=True), endless, told.append)
    assert told == ["timing"]
    assert [attack.name for attack in found.attacks][:2] == ["gaussian-posterior", "linkage"]
    assert {attack.seconds for attack in found.attacks if attack.knows == "candidates"} == {0.5}
    assert {attack.seconds for attack in found.attacks if attack.knows == "nothing"} == {0.5}, (
        "1 start"
    )
    lower = check_report.examine(lambda: small(), Request(knows="nothing"), told.append)
    assert {attack.seconds for attack in lower.attacks if attack.name == "dlg"} == {1.5}, (
        "3 starts"
    )
    told.pop()
    assert found.left_out == ()
    assert list(found.work) == ["tune", "tune --quick"]
    (full, quick) = found.work.values()
    assert full.least > quick.least > 0
    assert full.most > quick.most > quick.least
    assert full.not_timed == quick.not_timed == ()
    assert found.once > 0, "the plan alone takes its time"
    for one, two in zip(found.seconds("tune")[:2], found.seconds("tune", 2)[:2], strict=True):
        assert one - found.once == pytest.approx(2 * (two - found.once))


def test_a_tuning_ends_when_its_minutes_are_over_by_the_clock() -> None:
    def found(minutes: float) -> check_report.Examined:
        made = check_report.examine(small, Request(minutes=minutes), lambda _: None)
        return replace(made, once=0.0)

    long, short = found(1e4), found(0.5)
    answer = short.seconds("tune", answer=True)
    assert long.seconds("tune").most > answer.most + 60
    assert short.seconds("tune").most == max(30.0, answer.most)
    assert answer == long.seconds("tune", answer=True)
    held_up = replace(found(60), wall=30.0, cpu=10.0)
    busy = replace(long, wall=30.0, cpu=10.0)
    assert held_up.seconds("tune").most == min(busy.seconds("tune").most, 1200.0)


def test_a_quick_tuning_is_named_so_and_keeps_what_was_given() -> None:
    quick = check_report.examine(small, Request(preset="quick"), lambda _: None)
    assert list(quick.work) == ["tune --quick"]
    usual = check_report.examine(small, Request(), lambda _: None)
    assert usual.work["tune --quick"] == quick.work["tune --quick"]
    thorough = check_report.examine(small, Request(preset="thorough"), lambda _: None)
    assert list(thorough.work) == ["tune --thorough", "tune --quick"]
    assert thorough.work["tune --quick"] == quick.work["tune --quick"]
    alone = check_report.examine(small, Request(attacks="gaussian-posterior"), lambda _: None)
    assert alone.work["tune --quick"].most < quick.work["tune --quick"].most


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"knows": "nothing"}, {"knows": "rest"}, {"claim": "one-round"}, {"strengths": 0},
        {"families": ("randomization",)}, {"preset": "thorough"}, {"seeds": 2},
        {"adversary": "client", "families": ("randomization", "secret-sharing")},
    ],
)  # fmt: skip
def test_a_quick_tuning_is_never_said_to_be_longer(settings: dict[str, Any]) -> None:
    full, quick = check_report.examine(small, Request(**settings), lambda _: None).work.values()
    assert quick.most <= full.most
    assert quick.least <= full.least


def test_what_was_not_timed_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(_: Any, __: Any, every: list[Kind], *___: Any) -> Timed:
        slow = next(item for item in every if item.attacks == ("dlg",))
        rest = {kind: 0.5 for kind in every if kind.what != "timings"}
        return Timed(rest | {slow: 0.0}, frozenset([slow]))

    monkeypatch.setattr(check_report, "timed", timed)
    found = check_report.examine(small, Request(), lambda _: None)
    assert found.work["tune"].not_timed == ("timings",)
    assert found.work["tune"].said.endswith(" without timings")
    assert [attack.name for attack in found.attacks if attack.seconds is None] == ["dlg"]


def test_what_is_left_out_is_named_with_its_reason() -> None:
    found = check_report.examine(alone, Request(families=("randomization",)), lambda _: None)
    why = dict(found.left_out)
    assert set(why) == {
        "analytic",
        "secret sharing, Paillier",
        "candidate sets of a client's own records",
        "pictures of records",
        "accuracy",
    }
    assert "which this Sequential does not" in why["analytic"]
    assert "12 records" in why["candidate sets of a client's own records"]


def test_what_cannot_be_tuned_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="needs the knowledge"):
        check_report.examine(small, Request(attacks="exact-posterior"), lambda _: None)


def test_a_model_that_is_too_slow_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_report, "_SLOW_S", 0.0)
    with pytest.raises(InvalidInput, match=r"updates .* take .* here.*about .*device='cuda'"):
        check_report.examine(small, Request(), lambda _: None)


def test_attacks_that_one_reason_leaves_out_are_named_together() -> None:
    draw = torch.Generator().manual_seed(0)
    words = torch.randint(0, 9, (60, 3), generator=draw), torch.randint(0, 2, (60,))
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
    made = Scenario(net, nn.functional.cross_entropy, [words], words, LocalTraining(batch=2))
    why = dict(check_report.examine(made, Request(rounds=4), lambda _: None).left_out)
    (names,) = (item for item in why if "dlg" in item)
    assert "inverting-gradients" in names
    assert why[names].startswith("each searches over real numbers")
