"""A proof answers first; attacks end after the minutes, and go on where they stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma import LocalTraining, Scenario, Verdict
from trilemma.api import tune as ask
from trilemma.errors import InvalidInput
from trilemma.execution.journal import Run
from trilemma.reporting.page.page import verdict_page
from trilemma.tuning import tuning_run
from trilemma.tuning.request import Request
from trilemma.tuning.tuning_run import tune

ASKED: dict[str, Any] = {
    "preset": "quick",
    "families": ("randomization", "compression"),
    "seeds": 2,
    "attacks": ("gaussian-posterior",),
}


def scenario() -> Scenario:
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(200, 6, generator=draw)
    y = (x[:, 0] > x[:, 1]).long()
    clients = [(x[k:150:3], y[k:150:3]) for k in range(3)]
    training = LocalTraining(batch=4, lr=0.5)
    return Scenario(
        nn.Linear(6, 2), cross_entropy, clients, (x[150:], y[150:]), training, rounds=6
    )


def test_a_proof_is_told_before_anything_is_attacked() -> None:
    heard: list[Verdict] = []
    verdict = tune(scenario(), **ASKED, minutes=1e-9, answered=heard.append)
    first = heard[0]
    assert first.chosen == "randomization"
    assert first.basis == "certified"
    assert first.attacks == ()
    assert "Provisional: attacks on this answer are still under way, and follow." in first.limits
    assert verdict.protection == first.protection
    (said,) = (limit for limit in verdict.limits if "attacks were ended" in limit)
    assert "compression (0 games played)" in said
    assert "control, gaussian-posterior (0 games played)" in said
    assert said.count("attacks on what was chosen") <= 1
    assert "_" not in said
    (other,) = (candidate for candidate in verdict.candidates if candidate.name == "compression")
    assert other.rank is None
    assert other.statement == "Not finished: 0 games were played."


@pytest.mark.slow
def test_a_proved_answer_is_attacked_before_families_that_only_games_judge() -> None:
    heard: list[Verdict] = []
    verdict = tune(scenario(), **ASKED, answered=heard.append)
    known, attacked, measured = heard
    assert (known.trade_off, known.attacks) == (None, ())
    point = attacked.trade_off
    whole = verdict.trade_off
    assert point is not None
    assert whole is not None
    assert (len(point.points), attacked.figure, verdict.figure) == (1, None, whole)
    own, again = point.points[0], whole.points[whole.chosen]
    assert (own.noise_multiplier, own.proof) == (again.noise_multiplier, again.proof)
    for one, other in zip(own.attackers[2:], again.attackers[2:], strict=True):
        assert (one.units, one.recovered) == (8, other.recovered)
    assert attacked.attacks[0].control_units > 0
    assert any("Not finished" in candidate.statement for candidate in attacked.candidates)
    assert measured.trade_off == point
    assert not any("Not finished" in candidate.statement for candidate in measured.candidates)


@pytest.mark.slow
def test_who_goes_on_tells_nothing_less_than_was_known(tmp_path: Path) -> None:
    heard: list[list[Verdict]] = []
    for minutes in (None, None, 1e-9):
        heard.append([])
        with Run.open(tmp_path, {"minutes": None}) as run:
            verdict = tune(
                scenario(), **ASKED, run=run, minutes=minutes, answered=heard[-1].append
            )
        verdict.save(tmp_path / "verdict.json")
    assert [len(told) for told in heard] == [3, 0, 0]
    assert verdict.figure is not None, "what is kept takes no time"


def test_updates_that_are_clipped_whole_are_proved_and_not_attacked() -> None:
    made = scenario()
    training = LocalTraining("fedavg", batch=4, steps=2, lr=0.5)
    whole = replace(made, local_training=training)
    asked: dict[str, Any] = {**ASKED, "families": ("randomization",), "attacks": None}
    verdict = tune(whole, **asked, knows="anyone", minutes=1e-9)
    assert verdict.choice is not None
    assert verdict.choice.certificate is not None
    assert verdict.choice.certificate.clips_updates
    assert verdict.trade_off is None
    assert "Nothing was attacked under this protection." in verdict_page(verdict)


@pytest.mark.slow
def test_attacks_on_another_choice_are_not_told_of_this_one() -> None:
    asked = {**ASKED, "families": ("paillier", "secret-sharing"), "attacks": ("analytic",)}
    heard: list[Verdict] = []
    verdict = tune(scenario(), **asked, rounds=1, knows="nothing", answered=heard.append)
    assert [item.chosen for item in heard] == ["paillier", "paillier", "secret-sharing"]
    assert [len(item.beside) for item in heard] == [0, 1, 0]
    assert verdict.chosen == "secret-sharing"


@pytest.mark.slow
def test_what_was_ended_goes_on_and_counts_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = ask(scenario, **ASKED, out=tmp_path / "whole", quiet=True)
    log = (tmp_path / "whole" / "run.log").read_text()
    for before in ("at_proved_noise", "control, gaussian-posterior"):
        assert log.index(f"{before} finished") < log.index("compression finished")
    short = ask(scenario, **ASKED, out=tmp_path / "ended", minutes=1e-9, quiet=True)
    assert Verdict.load(tmp_path / "ended").limits == short.limits
    assert (tmp_path / "ended" / "report.html").exists()
    again = ask(scenario, **ASKED, out=tmp_path / "ended", quiet=True)
    assert not any("attacks were ended" in limit for limit in again.limits)
    for one, other in zip(whole.candidates, again.candidates, strict=True):
        assert (one.name, one.tests, one.success, one.leakage) == (
            other.name,
            other.tests,
            other.success,
            other.leakage,
        )
    assert [attack.control_recovered for attack in whole.attacks] == [
        attack.control_recovered for attack in again.attacks
    ]
    assert whole.beside == again.beside


def test_an_attack_that_fails_leaves_the_answer_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise InvalidInput("the GPU's memory does not suffice.")

    monkeypatch.setattr(tuning_run, "at_proved_noise", refused)
    with pytest.raises(InvalidInput, match="memory does not suffice"):
        ask(scenario, **ASKED, out=tmp_path)
    assert Verdict.load(tmp_path).chosen == "randomization"
    kept = tmp_path / "verdict.json"
    assert f"tune: ended too soon; the last answer: {kept}" in capsys.readouterr().err


def test_time_never_ends_what_gives_the_first_answer() -> None:
    """Without a proof the measured families are searched to their end."""
    asked = {**ASKED, "families": ("randomization",), "basis": "measured"}
    verdict = tune(scenario(), **asked, minutes=1e-9)
    (candidate,) = verdict.candidates
    assert candidate.tests or candidate.points


def test_minutes_count_from_the_start_and_half_are_left_after_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning_run, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    assert tuning_run._until(None, 990.0) is None
    assert tuning_run._until(20.0, 990.0) == 990.0 + 0.99 * 20 * 60
    assert tuning_run._until(5.0, 200.0) == 1000.0 + 2.5 * 60


@pytest.mark.slow
def test_any_number_of_minutes_is_waited_for() -> None:
    verdict = tune(scenario(), **ASKED, minutes=1e12, workers=2)
    assert not any("attacks were ended" in limit for limit in verdict.limits)


def test_minutes_are_checked_and_decide_no_number() -> None:
    with pytest.raises(InvalidInput, match="minutes must be"):
        Request(minutes=0.0)
    assert Request(preset="thorough").minutes is None
    assert "minutes" not in Request(minutes=3.0).decides()
