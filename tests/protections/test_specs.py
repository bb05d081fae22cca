"""A protection's text is a protection that round-trips, or one sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trilemma.cli import main
from trilemma.errors import InvalidInput
from trilemma.protections.specs import MECHANISMS, parse_protection
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.secret_sharing.transport import SecretSharing

ODD = ["0", "-0.0", "-1", "1", "64", "inf", "-inf", "nan", "1e999", "5e-324", "1e-5", "9" * 400]
ODD += ["", " 3", "0x10", "1_0", "３", "true", "blind", "\x1b[31m", "\0", "é" * 40, "{", "%s", "?"]
KEYS = sorted({key for spec in MECHANISMS.values() for key in spec.settings})
VALUES = st.one_of(
    st.sampled_from(ODD),
    st.integers(-5, 100).map(str),
    st.floats().map(repr),
    st.floats(1e-6, 1).map(repr),
    st.text(max_size=12),
)


@st.composite
def parts(draw: st.DrawFn) -> str:
    """One part, most often of a known name and of its own settings."""
    name = draw(st.one_of(st.sampled_from([*MECHANISMS, "none"]), st.text(max_size=8)))
    own = sorted(MECHANISMS[name].settings) if name in MECHANISMS else KEYS
    key = st.one_of(st.sampled_from(own or KEYS), st.sampled_from(KEYS), st.text(max_size=8))
    pairs = draw(st.lists(st.tuples(key, VALUES), max_size=3))
    text = ",".join(f"{key}={value}" for key, value in pairs)
    return f"{name}:{text}" if text else name


def check(text: str) -> bool:
    """Whether the text is a protection; then its description is the same one."""
    try:
        made = parse_protection(text)
    except InvalidInput as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert len(sentence) < 3000
        return False
    assert parse_protection(made.describe()) == made
    assert made.describe() == parse_protection(made.describe()).describe()
    return True


@settings(max_examples=400)
@given(found=st.lists(parts(), min_size=1, max_size=3))
@example(found=["paillier"])
def test_any_parts_are_a_protection_that_round_trips_or_refused(found: list[str]) -> None:
    check("+".join(found))


@settings(max_examples=300)
@given(text=st.text(max_size=80))
def test_any_text_is_a_protection_that_round_trips_or_refused(text: str) -> None:
    check(text)


@settings(max_examples=300)
@given(
    clip=st.floats(1e-100, 1e100),
    bits=st.integers(2, 32),
    weight=st.integers(1, 1 << 30),
    variance=st.floats(1e-100, 1e100),
    keep=st.floats(1e-6, 1),
)
def test_whatever_lies_in_range_is_a_protection(
    clip: float, bits: int, weight: int, variance: float, keep: float
) -> None:
    fixed = f"clip_range={clip!r},precision_bits={bits},max_weight={weight}"
    noise = f"compression:keep={keep!r}+randomization:variance={variance!r}"
    assert check(f"paillier:{fixed}")
    assert check(noise)
    assert check(f"secret-sharing:{fixed},ring_bits=64")
    assert check(f"top-k:keep={keep!r}")


@pytest.mark.parametrize("transport", ["paillier", "secret-sharing"])
@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("precision_bits=0", r"precision .* 2 .. 32, got 0"),
        ("precision_bits=1", r"precision .* 2 .. 32, got 1"),
        ("precision_bits=64", r"precision .* 2 .. 32, got 64"),
        ("precision_bits=-3", r"precision .* 2 .. 32, got -3"),
        ("precision_bits=16.0", "cannot be read"),
        ("precision_bits=", "cannot be read"),
        ("precision_bits=" + "9" * 60, "at most 64 bits"),
        ("max_weight=0", "max_weight must be at least 1, got 0"),
        ("max_weight=-1", "max_weight must be at least 1, got -1"),
        ("max_weight=9999999999999999999", "62 bits"),
        ("clip_range=0", r"clip_range .* got 0.0"),
        ("clip_range=-1", r"clip_range .* got -1.0"),
        ("clip_range=inf", "clip_range .* got inf"),
        ("clip_range=nan", "clip_range .* got nan"),
        ("clip_range=1e999", "clip_range .* got inf"),
        ("clip_range=5e-324", "clip_range .* got 5e-324"),
        ("clip_range=1,clip_range=1", "sets clip_range twice"),
    ],
)
def test_fixed_point_settings_out_of_range_are_one_sentence(
    transport: str, setting: str, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_protection(f"{transport}:{setting}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("paillier:bits=0", "0 bits is below the floor"),
        ("paillier:bits=-1", "-1 bits is below the floor"),
        ("paillier:bits=99999999", r"64 .. 16384 bits, got 99999999"),
        ("paillier:mode=\x1b[31m", r"got '\\x1b\[31m'"),
        ("randomization:variance=5e-324", "variance .* got 5e-324"),
        ("randomization:variance=1e999", "variance .* got inf"),
        ("randomization:variance=1,clip=nan", "clip .* got nan"),
        ("secret-sharing:bound=5e-324", "bound .* got 5e-324"),
        ("secret-sharing:ring_bits=0", "32 or 64, got 0"),
        ("compression:keep=nan", "keep .* got nan"),
        ("compression:drop=1", "keep .* got 0"),
        ("top-k:keep=inf", "keep .* got inf"),
        ("\x1b[2J", r"unknown protection '\\x1b\[2J'"),
        ("x" * 400, r"unknown protection 'x{80}\.\.\.'"),
        ("x" * 5000, "at most 500 characters, got 5000"),
        ("plain+none", "leave none out"),
    ],
)
def test_other_settings_out_of_range_are_one_sentence(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_protection(text)


@pytest.mark.parametrize("bad", ["16", 16.5, True, None, np.float64(16)])
def test_transports_check_the_types_of_their_settings(bad: object) -> None:
    for make in (Paillier, SecretSharing):
        for setting in ("precision_bits", "max_weight"):
            with pytest.raises(InvalidInput, match="whole number"):
                make(**{setting: bad})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="whole number"):
        Paillier(bits=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"variance .* a number"):
        Randomization("1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "paillier:precision_bits=0",
        "paillier:precision_bits=1",
        "randomization:variance=1e999",
        "secret-sharing:clip_range=5e-324",
        "\x1b[31mred",
        "x" * 10_000,
    ],
)
@pytest.mark.parametrize("option", ["--protection", "--\x1b[31m"])
def test_the_command_line_ends_in_one_sentence(
    text: str,
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["trilemma", "attack", option, text])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trilemma: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert len(err) < 1000
