"""`trilemma solve` as a user meets it: a process, its output and its exit code."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilemma.cli.main import main
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.profile_files import ProfileFile
from trilemma.paper_framework.surrogate_bounds import Constants

GOOD = {
    "--c1": "0.9",
    "--c2": "200",
    "--budget": "0.3",
    "--parameters": "2410",
    "--delta": "0.5",
    "--sigma": "0.05",
}


def arguments(**changes: str | None) -> list[str]:
    options = {**GOOD, **{"--" + k.replace("_", "-"): v for k, v in changes.items()}}
    return [word for key, value in options.items() if value is not None for word in (key, value)]


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["trilemma", "solve", *words])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


Run = Any


@pytest.fixture
def solve(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return lambda *words: run(capsys, monkeypatch, *words)


def test_json_has_the_documented_shape(solve: Run) -> None:
    code, out, err = solve(*arguments(), "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["budget", "c1", "c2", "clients", "results"]
    names = [result["mechanism"] for result in document["results"]]
    assert names == ["randomization", "paillier", "secret-sharing", "compression"]
    for result in document["results"]:
        assert list(result) == [
            "mechanism",
            "parameter",
            "form",
            "feasible",
            "reason",
            "guarantee",
            "distortion",
            "true_distortion",
            "surrogate_leakage",
            "regime",
            "proved_in_the_model",
            "proved",
            "utility_bound",
            "efficiency_bound",
            "objective",
        ]
        assert list(result["parameter"]) == [
            "symbol",
            "meaning",
            "value",
            "log_value",
            "distance",
            "strength",
        ]
        assert (result["parameter"]["strength"] is None) == (result["mechanism"] != "compression")
        assert result["regime"] == "above-c1"


def test_values_for_a_billion_parameters(solve: Run) -> None:
    _, out, _ = solve(*arguments(parameters="1000000000"), "--json")
    results = {r["mechanism"]: r for r in json.loads(out)["results"]}
    q = 1.5 / 200
    dropped = results["compression"]["parameter"]["strength"]
    assert dropped == pytest.approx(-math.log1p(-q) / 1e9, rel=1e-6)
    assert results["paillier"]["parameter"]["log_value"] == pytest.approx(-math.log1p(-q) / 2e9)
    sharing = results["secret-sharing"]["parameter"]
    assert sharing["value"] == pytest.approx(0.5, rel=1e-11), "γ* rounds to neutral"
    assert sharing["distance"] == pytest.approx(-0.5 * math.log1p(-q) / 1e9, rel=1e-6)
    assert results["secret-sharing"]["guarantee"].startswith("No guarantee")
    a = math.sqrt(1e9) / 0.05**2
    assert results["randomization"]["parameter"]["value"] == pytest.approx(100 * q / a)


def test_an_infeasible_problem_is_an_answer(solve: Run) -> None:
    code, out, _ = solve(*arguments(c2="1"), "--json")
    assert code == 0
    for result in json.loads(out)["results"]:
        assert result["feasible"] is False
        assert result["regime"] == "infeasible"
        assert "budget" in result["reason"]
        assert result["parameter"]["value"] is None
        assert result["distortion"] is None


def test_the_table_fits_80_columns_and_says_what_it_is_worth(solve: Run) -> None:
    code, out, _ = solve(*arguments())
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= 80
    for words in ("No guarantee", "above-c1", "surrogate leakage", "probability of keeping"):
        assert words in " ".join(out.split())


def test_the_three_forms(solve: Run) -> None:
    values = {}
    for form in ("printed", "corrected", "tight"):
        _, out, _ = solve(*arguments(), "--form", form, "--json")
        values[form] = {
            r["mechanism"]: r["parameter"]["value"] for r in json.loads(out)["results"]
        }
    assert values["printed"]["randomization"] == values["corrected"]["randomization"]
    assert values["tight"]["randomization"] < values["corrected"]["randomization"]
    assert values["printed"]["compression"] == values["corrected"]["compression"]
    assert values["printed"]["secret-sharing"] != values["corrected"]["secret-sharing"]


def test_a_sigma_file_with_zeros_is_floored_and_told(solve: Run, tmp_path: Path) -> None:
    file = tmp_path / "sigma.npy"
    np.save(file, np.array([0.1, 0.0, 0.2]))
    words = arguments(sigma=None, parameters=None, sigma_file=str(file))
    code, out, err = solve(*words, "--json")
    assert code == 0
    assert (
        err == "trilemma: 1 of 3 sigmas are zero and were floored at the smallest positive one.\n"
    )
    a = math.sqrt(2 * 0.1**-4 + 0.2**-4)
    value = json.loads(out)["results"][0]["parameter"]["value"]
    assert value == pytest.approx(100 * 1.5 / 200 / a)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": "0"}, "budget"),
        ({"budget": "2"}, "got 2.0"),
        ({"budget": "nan"}, "got nan"),
        ({"c1": "1.1"}, "c1"),
        ({"c2": "0"}, "c2"),
        ({"c2": "-3"}, "c2"),
        ({"parameters": "0"}, "at least 1, got 0"),
        ({"parameters": None}, "--parameters"),
        ({"delta": None}, "--delta"),
        ({"sigma": None}, "--sigma"),
        ({"sigma_file": "x.npy"}, "not both"),
        ({"sigma": "0.1,x"}, "--sigma must be a number, or one a client"),
        ({"delta": "0.1,0.2", "sigma": "1,2,3"}, "--delta has 2 and --sigma 3 entries"),
        ({"delta": "0.1,0.2", "clients": "3"}, "--delta has 2"),
        ({"utility_weight": "1,2"}, "utility_weight has 2 entries for 1 clients"),
        ({"clients": "1000001"}, "at most 1000000"),
        ({"profile": "x.npz"}, "leave out the flags"),
        ({"sigma": None, "sigma_file": "absent.npy"}, "does not exist"),
        ({"mechanism": "pailler"}, "did you mean 'paillier'?"),
        ({"mechanism": "rot13"}, "compression, paillier, randomization, secret-sharing"),
        ({"clients": "0"}, "clients"),
        ({"c4": "-1"}, "c4"),
        ({"utility_weight": "-1"}, "utility_weight"),
        ({"budget": "lots"}, "not a valid float"),
        ({"max_cost": "nan"}, "max_cost"),
        ({"c1": None}, "--c1"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    solve: Run, changes: dict[str, str | None], words: str
) -> None:
    code, out, err = solve(*arguments(**changes))
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert err.startswith("trilemma: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (np.array([0.1, math.nan]), "entry 1 is nan"),
        (np.array([0.1, -0.2]), "entry 1 is -0.2"),
        (np.array(["a"]), "real numbers"),
        (np.ones((2, 2)), "vector"),
        (np.zeros(3), "every sigma is zero"),
        (b"no npy file", "numpy.save"),
        (b"", "numpy.save"),
    ],
)
def test_bad_sigma_files(solve: Run, tmp_path: Path, content: Any, words: str) -> None:
    file = tmp_path / "sigma.npy"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.save(file, content)
    words_given = arguments(sigma=None, parameters=None, sigma_file=str(file))
    code, out, err = solve(*words_given)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_sigma_file_of_another_model(solve: Run, tmp_path: Path) -> None:
    file = tmp_path / "sigma.npy"
    np.save(file, np.ones(5))
    code, _, err = solve(*arguments(sigma=None, sigma_file=str(file)))
    assert code == 2
    assert "5 entries" in err


def test_mechanisms_that_need_no_sigma_do_not_ask_for_it(solve: Run) -> None:
    words = arguments(sigma=None, delta=None, mechanism="compression")
    assert solve(*words)[0] == 0


def test_the_installed_command_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trilemma", "solve", *arguments(), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["budget"] == 0.3


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": "9" * 400},
        {"parameters": "9" * 5000},
        {"clients": "9" * 400},
        {"c2": "1e308"},
        {"c2": "5e-324"},
        {"c4": "inf"},
        {"c5": "1e308"},
        {"budget": "nan"},
        {"efficiency_weight": "1e308"},
    ],
)
def test_numbers_beyond_all_use_are_refused(solve: Run, changes: dict[str, str]) -> None:
    code, out, err = solve(*arguments(**changes), "--json")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert len(err) < 1000


def test_numbers_at_the_ends_give_numbers(solve: Run) -> None:
    """γ* itself may be beyond all floats: then it is null, and its logarithm says how large."""
    code, out, err = solve(
        *arguments(c1="1e-320", c2="1", budget="5e-324", delta="1e-5", parameters="1"),
        *("--form", "printed", "--json"),
    )
    assert (code, err) == (0, "")
    found = {load["mechanism"]: load["parameter"] for load in json.loads(out)["results"]}
    assert found["secret-sharing"]["value"] is None
    assert 709 < found["secret-sharing"]["log_value"] < 760


def test_several_clients_with_their_own_weights_and_caps(solve: Run) -> None:
    words = arguments(delta="0.1,0.5", sigma="0.01,0.05", utility_weight="1,3", max_cost="0.001")
    code, out, _ = solve(*words, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["clients"] == 2
    for result in document["results"]:
        assert result["surrogate_leakage"] == pytest.approx(0.3, abs=1e-9)
        assert not result["feasible"]
        assert "the efficiency bound of" in result["reason"]
    noise = document["results"][0]
    s2 = noise["parameter"]["value"]
    losses = [min(1.0, 1.5 * s2 * math.sqrt(2410) / s**2) for s in (0.01, 0.05)]
    objective = (losses[0] + 3 * losses[1]) / 2 + 0.01 * sum(losses) / 2
    assert noise["objective"] == pytest.approx(objective, rel=1e-9)


def test_a_cap_on_the_utility_bound_is_equation_8(solve: Run) -> None:
    _, out, _ = solve(*arguments(max_utility_loss="0.0001"), "--json")
    able = {load["mechanism"]: load["feasible"] for load in json.loads(out)["results"]}
    assert able == {
        "randomization": False, "paillier": True, "secret-sharing": True, "compression": False
    }  # fmt: skip


def test_the_printed_cost_of_sharing_counts_the_clients(solve: Run) -> None:
    words = arguments(clients="4", mechanism="secret-sharing", form="printed")
    _, out, _ = solve(*words, "--json")
    (found,) = json.loads(out)["results"]
    assert found["efficiency_bound"] == pytest.approx(
        4 * 2410 * found["parameter"]["log_value"], rel=1e-9
    )


def test_nothing_is_called_proved_by_an_idealised_distortion(solve: Run) -> None:
    """Above 1.5·C₁ the model's TV would prove the budget; no mechanism as it runs has that TV."""
    code, out, _ = solve(*arguments(c1="0.5", c2="25", budget="0.76"), "--json")
    assert code == 0
    for found in json.loads(out)["results"][1:]:
        assert found["proved_in_the_model"]
        assert not found["proved"]
        assert found["true_distortion"] > 1.9 * found["distortion"]
        assert found["guarantee"].startswith("Unproved: the true distortion may be")


def test_constants_and_profiles_come_from_a_file(solve: Run, tmp_path: Path) -> None:
    profiles = (
        Profile.from_sigmas([0.1, 0.0, 0.2], delta=0.5),
        Profile.from_sigmas([0.3, 0.2, 0.2], delta=0.7),
    )
    file = tmp_path / "digits.npz"
    ProfileFile(Constants(0.9, 200.0), profiles).save(file)
    code, out, err = solve("--budget", "0.3", "--profile", str(file), "--json")
    assert code == 0
    assert err.startswith("trilemma: up to 1 of 3 sigmas are zero")
    document = json.loads(out)
    assert (document["c1"], document["c2"], document["clients"]) == (0.9, 200.0, 2)
    a = [math.sqrt(2 * 0.1**-4 + 0.2**-4), math.sqrt(0.3**-4 + 2 * 0.2**-4)]
    value = document["results"][0]["parameter"]["value"]
    assert sum(min(1, value * item) / 200 for item in a) == pytest.approx(1.5 / 200)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_a_file_that_is_no_profile(solve: Run, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "p.npz"
    file.write_bytes(content)
    code, out, err = solve("--budget", "0.3", "--profile", str(file))
    assert (code, out) == (2, "")
    assert "is no profile" in err
    assert "trilemma estimate --profile FILE" in err
    code, _, err = solve("--budget", "0.3", "--profile", str(tmp_path / "absent.npz"))
    assert code == 2
    assert "does not exist" in err
