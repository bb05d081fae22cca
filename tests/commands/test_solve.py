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

from trilemma.cli import main

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
    assert list(document) == ["budget", "c1", "c2", "results"]
    names = [result["mechanism"] for result in document["results"]]
    assert names == ["randomization", "paillier", "secret-sharing", "compression"]
    for result in document["results"]:
        assert list(result) == [
            "mechanism",
            "parameter",
            "form",
            "feasible",
            "reason",
            "distortion",
            "surrogate_leakage",
            "regime",
            "proved",
            "utility_bound",
            "efficiency_bound",
            "objective",
        ]
        assert list(result["parameter"]) == ["symbol", "value", "log_value", "strength"]
        assert (result["parameter"]["strength"] is None) == (result["mechanism"] != "compression")
        assert result["regime"] == "above-c1"


def test_values_for_a_billion_parameters(solve: Run) -> None:
    _, out, _ = solve(*arguments(parameters="1000000000"), "--json")
    results = {r["mechanism"]: r for r in json.loads(out)["results"]}
    q = 1.5 / 200
    dropped = results["compression"]["parameter"]["strength"]
    assert dropped == pytest.approx(-math.log1p(-q) / 1e9, rel=1e-6)
    assert results["paillier"]["parameter"]["log_value"] == pytest.approx(-math.log1p(-q) / 2e9)
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
        ({"sigma": None, "sigma_file": "absent.npy"}, "does not exist"),
        ({"mechanism": "pailler"}, "did you mean 'paillier'?"),
        ({"mechanism": "rot13"}, "compression, paillier, randomization, secret-sharing"),
        ({"clients": "0"}, "clients"),
        ({"c4": "-1"}, "c4"),
        ({"utility_weight": "-1"}, "utility_weight"),
        ({"budget": "lots"}, "not a valid float"),
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
    found = {each["mechanism"]: each["parameter"] for each in json.loads(out)["results"]}
    assert found["secret-sharing"]["value"] is None
    assert 709 < found["secret-sharing"]["log_value"] < 760
