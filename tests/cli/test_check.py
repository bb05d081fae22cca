"""`trilemma check` as a user meets it: once with real timings, on a small federation."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.cli.own_scenario import small
from tests.cli.running import here
from torch import nn

from trilemma.cli.check import _show
from trilemma.tuning.check_report import Examined
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.time_left import Left

SPEC = "tests.cli.own_scenario:small"


def test_a_look_at_ones_own_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--attacks", "gaussian-posterior,analytic", "--families", "randomization")
    code, out, err = here(monkeypatch, capsys, "check", SPEC, *words)
    assert code == 0, err
    assert "check: timing a training\n" in err
    said = " ".join(out.split())
    assert "small, 2 clients with 160 records, 1 record an update (fedsgd)" in said
    assert "which of 21 records was used? A blind guess is right in 4.8 of 100 cases" in said
    assert "starts from fresh random weights" in said
    assert "pictures of records: the scenario does not set show_records" in said
    for name in ("tune:", "tune --quick:"):
        assert re.search(rf"trilemma {name} (about|at most|\d.* to) .* in one process, ", said)


def test_absolute_errors_can_be_tuned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = SPEC.replace(":small", ":absolute")
    words = ("--attacks", "map,dlg", "--families", "randomization")
    code, out, err = here(monkeypatch, capsys, "check", own, *words)
    assert code == 0, err
    assert f"{own} can be tuned" in " ".join(out.split())


def test_what_is_not_supported_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = SPEC.partition(":")[0]
    for name in ("labels_out_of_range", "loss_differentiable_once", "of_one_precision", "nothing"):
        code, out, err = here(monkeypatch, capsys, "check", f"{module}:{name}")
        assert (code, out) == (2, "")
        assert err.splitlines()[-1].startswith("trilemma: ")


def test_what_is_changed_in_a_model_is_told_before_it_is_tuned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    made = replace(small(), model=net)
    _show(
        Examined(Plan.of(made, Request()), (), (), {"tune": Left(60.0, 360.0, ())}, 5.0),
        "mine:make",
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "trilemma tune: 65 s to 6.1 min in one process, 35 s to 3.1 min with" in said
    assert "What is done with your model - Dropout ('1') is off in what is trained" in said
