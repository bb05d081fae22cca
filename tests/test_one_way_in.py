"""What Python and the command line both call: names, functions, keywords, a folder, progress."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.own_scenario import shown, small
from tests.cli.running import here
from tests.cli.test_configuration import parsed
from tests.tuning.simulating import Simulated, simulate

import trilemma
from trilemma import api
from trilemma.errors import InvalidInput, UnknownName
from trilemma.paper_framework.profile_files import ProfileFile
from trilemma.settings import Federated, FederatedSettings, RequestSettings
from trilemma.tuning.request import Request

SETTINGS: dict[str, Any] = {
    "budget": 0.4,
    "families": ("randomization",),
    "seeds": 2,
    "strengths": 0,
}
NAME = "tests.cli.own_scenario:small"
ASKED = (api.tune, api.check, api.pareto)
MEASURED = (api.attack, api.estimate, api.recover)


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch)


def test_scenario_function_and_name_give_one_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    first = trilemma.tune(small(), **SETTINGS)
    said = capsys.readouterr().err
    begins = "tune: begins with training under unprotected updates over 60 rounds"
    assert said.splitlines()[:2] == ["tune: reading the federation", begins]
    for given in (small, NAME):
        verdict = trilemma.tune(given, quiet=True, **SETTINGS)
        assert verdict.candidates == first.candidates
    assert capsys.readouterr().err == ""


def test_a_rate_instead_of_a_leakage() -> None:
    asked = {name: value for name, value in SETTINGS.items() if name != "budget"}
    verdict = trilemma.tune(small(), at_most="1 in 4", basis="measured", quiet=True, **asked)
    assert verdict.largest_success_rate == 0.25
    leakage = trilemma.bernoulli_leakage(0.25, verdict.claim.kappa)
    assert verdict.request.budget == pytest.approx(leakage, rel=0.05), "both are told"
    assert "in at most 25 of 100 attempts" in verdict.headline
    with pytest.raises(InvalidInput, match="not both"):
        trilemma.tune(small(), at_most=0.2, budget=0.3)


def test_a_folder_keeps_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    verdict = trilemma.tune(small, out=folder, **SETTINGS)
    assert trilemma.Verdict.load(folder / "verdict.json") == verdict
    assert (folder / "report.html").exists()
    capsys.readouterr()
    again = trilemma.tune(small, out=folder, **SETTINGS)
    assert again.candidates == verdict.candidates
    assert "begins" not in capsys.readouterr().err, "nothing is measured again"


def test_python_and_the_command_line_give_one_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One folder serves both, and what the command prints is what Python returns."""
    folder = tmp_path / "run"
    verdict = trilemma.tune(NAME, clients=3, out=folder, quiet=True, **SETTINGS)
    assert verdict.source == {"scenario": NAME, "clients": 3}
    program, command, *words = shlex.split(verdict.reproduce)
    assert (program, command) == ("trilemma", "tune")
    federated, request = parsed(words)
    assert federated == Federated(scenario=NAME, clients=3)
    assert request == Request(**SETTINGS) == verdict.request
    code, out, err = here(
        monkeypatch, capsys, command, *words, "--out", str(folder), "--workers", "1", "--json"
    )
    assert code == 0, err
    assert json.loads(out) == verdict.as_json()
    assert "begins" not in err, "nothing is measured again"


def test_what_repeats_a_verdict_names_the_function_or_is_a_call() -> None:
    by_function = trilemma.tune(small, quiet=True, **SETTINGS)
    assert by_function.source == {"scenario": NAME}
    assert by_function.reproduce.startswith(f"trilemma tune --scenario {NAME} --budget 0.4 ")
    for given in (small(), lambda: small()):
        made = trilemma.tune(given, quiet=True, **SETTINGS)
        assert made.source == {}
        assert made.reproduce.startswith("trilemma.tune(scenario, budget=0.4, families=")
        names: dict[str, Any] = {"trilemma": trilemma, "scenario": given}
        assert eval(made.reproduce, names).candidates == by_function.candidates


def test_options_go_to_what_makes_the_scenario() -> None:
    assert trilemma.tune(small, clients=3, quiet=True, **SETTINGS).federation.clients == 3
    with pytest.raises(InvalidInput, match="made already, so that clients cannot change it"):
        trilemma.tune(small(), clients=3, quiet=True, **SETTINGS)
    with pytest.raises(InvalidInput, match=r"^clients is 'many': .*number"):
        trilemma.tune(NAME, clients="many", quiet=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [small, small(), NAME], ids=["function", "value", "name"])
def test_a_device_and_a_batch_change_what_does_not_take_them(given: Any) -> None:
    with pytest.raises(InvalidInput, match="'gpu7' is none that torch knows"):
        trilemma.tune(given, device="gpu7", quiet=True, **SETTINGS)
    found = trilemma.tune(given, device="cpu", batch=2, quiet=True, **SETTINGS)
    assert found.federation.records_per_update == 2


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'budget'"):
        trilemma.tune(small, bugdet=0.3)  # type: ignore[call-arg]


def test_a_front_from_python(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"families": ("randomization",), "seeds": 2, "units": 4}
    front = trilemma.pareto(small, evaluations=3, out=tmp_path / "front", quiet=True, **asked)
    assert (tmp_path / "front" / "report.html").exists()
    assert json.loads((tmp_path / "front" / "pareto.json").read_text()) == front.as_json()
    assert front.reproduce.startswith(f"trilemma pareto --scenario {NAME} ")
    alone = trilemma.pareto(small, evaluations=3, quiet=True, **asked)
    assert alone.points == front.points, "without a folder too"


def test_a_verdict_is_attacked_as_a_value_and_as_a_file(tmp_path: Path) -> None:
    verdict = trilemma.tune(small, out=tmp_path, quiet=True, **SETTINGS)
    found = [
        trilemma.attack_verdict(given, units=8, seed=3, quiet=True)
        for given in (verdict, tmp_path, str(tmp_path / "verdict.json"))
    ]
    assert found[0] == found[1] == found[2]
    assert {item.units for item in found[0].attacks} == {8}
    several = replace(verdict, source={"scenario": NAME, "clients": 2})
    made = trilemma.attack_verdict(several, small(), units=8, seed=3, quiet=True)
    assert made.attacks == found[0].attacks, "a scenario that is made takes no options"
    nameless = trilemma.tune(small(), quiet=True, **SETTINGS)
    with pytest.raises(InvalidInput, match="does not say how to make its scenario"):
        trilemma.attack_verdict(nameless, quiet=True)
    again = trilemma.attack_verdict(nameless, small(), units=8, seed=3, quiet=True)
    assert again.attacks == found[0].attacks


def test_attacks_of_one_round_as_a_value_and_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilemma.tuning.attack_rates.JobRunner", Simulated)
    asked: dict[str, Any] = {"attacks": ["analytic"], "units": 4, "quiet": True}
    found = trilemma.attack(shown, protection="randomization:variance=10", out=tmp_path, **asked)
    assert [item.attack for item in found.rated] == ["analytic"]
    assert found.protection == "randomization:variance=10.0"
    assert json.loads((tmp_path / "attack.json").read_text()) == json.loads(
        json.dumps(found.as_json())
    )


def test_what_one_attack_recovers(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"units": 4, "restarts": 1, "quiet": True}
    found = trilemma.recover(small, "analytic", protection="randomization:variance=10", **asked)
    assert found.works
    assert found.protected is not None
    assert [name for name, _ in found.rows()] == ["none (control)", "randomization:variance=10.0"]
    kept = trilemma.recover(small, "analytic", out=tmp_path, **asked)
    kept_json = json.loads((tmp_path / "attack.json").read_text())
    assert kept_json == json.loads(json.dumps(kept.as_json()))
    assert kept.as_json()["control"] == found.as_json()["control"]


def test_the_papers_constants_from_python(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"models": 2, "attempts": 2, "quiet": True}
    found = trilemma.estimate(small, out=tmp_path, profile=tmp_path / "small.npz", **asked)
    kept = json.loads((tmp_path / "estimate.json").read_text())
    assert kept == json.loads(json.dumps(found.as_json()))
    assert (found.constants.models, found.constants.attempts) == (2, 2)
    assert found.literal is None
    assert ProfileFile.load(tmp_path / "small.npz").constants == found.constants.by_datum.constants


@pytest.mark.parametrize(
    ("settings", "model"), [(FederatedSettings, Federated), (RequestSettings, Request)]
)
def test_the_typed_keywords_are_the_fields(settings: Any, model: Any) -> None:
    assert [*settings.__annotations__] == [n for n in model.model_fields if n != "scenario"]


@pytest.mark.parametrize("function", [*ASKED, *MEASURED])
def test_help_lists_every_setting(function: Callable[..., Any]) -> None:
    listed = inspect.signature(function).parameters
    assert all(value.kind is not inspect.Parameter.VAR_KEYWORD for value in listed.values())
    models = (Federated, Request) if function in ASKED else (Federated,)
    for model in models:
        for name, field in model.model_fields.items():
            assert name in listed
            if name not in ("scenario", "attacks"):
                assert listed[name].default == field.default
                assert f"- `{name}`: {listed[name].annotation} = " in (function.__doc__ or "")
                assert "Validator" not in listed[name].annotation, "as people write it"


def test_the_front_door_can_be_listed() -> None:
    assert {"Scenario", "LocalTraining", "tune", "__version__"} <= set(dir(trilemma))
    assert trilemma.__version__.count(".") >= 1
