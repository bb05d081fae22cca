"""`trilemma explain` as a user meets it: numbers by an oracle of their own."""

from __future__ import annotations

import pytest
from scipy.spatial.distance import jensenshannon
from tests.cli.running import here


def test_a_leakage_in_right_picks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = here(monkeypatch, capsys, "explain", "--budget", "0.3", "--candidates", "100")
    assert code == 0
    assert "100  1 of 100     21 of 100              1 in 4.7  0.3" in out
    assert jensenshannon([0.212, 0.788], [0.01, 0.99], base=2) == pytest.approx(0.3, abs=1e-3)


def test_a_rate_as_leakage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = here(monkeypatch, capsys, "explain", "--at-most", "1 in 6")
    leakage = jensenshannon([1 / 6, 5 / 6], [0.01, 0.99], base=2)
    row = next(line for line in out.splitlines() if line.strip().startswith("100 "))
    assert row.split()[-1] == f"{leakage:.3f}"
    assert "17 of 100" in row
    assert "How others set theirs" in out


def test_a_small_rate_is_written_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = here(monkeypatch, capsys, "explain", "--at-most", "1 in 200")
    assert "At most 1 in 200 guesses right" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "1.5"), "budget"),
        (("--at-most", "often"), 'such as "1 in 6"'),
        (("--at-most", "1 in 6", "--budget", "0.3"), "not both"),
        (("--candidates", "1"), "must lie in 2 .. 1,000,000,000, got 1"),
    ],
)
def test_bad_input_is_one_sentence(
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = here(monkeypatch, capsys, "explain", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_more_than_a_blind_guess_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("explain", "--at-most", "1 in 50", "--candidates", "20")
    assert "no more than a blind guess" in here(monkeypatch, capsys, *words)[1]
