"""`trilemma prove` as a user meets it: its output, its JSON, its mistakes."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from scipy.stats import norm
from tests.cli.running import here

ASKED = ("prove", "--clients", "10", "--rounds", "150", "--threshold", "7", "--helpers", "1")


def test_the_answer_fits_80_columns_and_names_the_odds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = here(monkeypatch, capsys, *ASKED)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    answer = " ".join(out.split())
    rate = float(norm.cdf(norm.ppf(0.01) + 0.9062))
    assert "100 equally likely records, sees all 150 rounds" in answer
    most = math.ceil(100 * rate)
    assert f"is helped by one client singles the right one out in at most {most} of" in answer
    assert "6 honest noises count" in answer


def test_json_holds_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = here(monkeypatch, capsys, *ASKED, "--json")
    document = json.loads(out)
    z = document["training"]["noise_multiplier"]
    assert code == 0
    assert document["honest"] == 6
    assert document["noise_per_client"] == pytest.approx(z / math.sqrt(6))
    for size, rate in document["success"].items():
        expected = norm.cdf(norm.ppf(1 / int(size)) + math.sqrt(150) / z)
        assert rate == pytest.approx(expected, rel=1e-9)


def test_single_messages_and_whole_clients_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, alone, _ = here(monkeypatch, capsys, *ASKED, "--transport", "plain")
    assert "helped" not in alone
    assert "honest noises" not in alone
    _, whole, _ = here(monkeypatch, capsys, *ASKED, "--algorithm", "fedavg")
    assert "100 equally likely clients" in " ".join(whole.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--budget", "2"), "2"),
        (("--threshold", "11"), "between 1 and the 10 clients, got 11"),
        (("--batch", "4"), "needs records"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = here(monkeypatch, capsys, *ASKED, *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err


def test_it_needs_no_torch() -> None:
    program = (
        "import sys; from trilemma.cli.main import app; "
        f"app({list(ASKED)!r}, standalone_mode=False); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
