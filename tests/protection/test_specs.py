"""A protection's text is a protection that round-trips, or one sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.protection.five import TEXTS
from tests.protection.foreign import Rounding, Shift

from trilemma.cli.main import main
from trilemma.errors import InvalidInput, TrilemmaError, UnknownName
from trilemma.protection.protection import Protection
from trilemma.protection.specs import MECHANISMS, parse_protection, tunable
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression, LayerCompression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

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


def test_blanks_may_stand_where_a_verdict_is_shown_with_them() -> None:
    plain = "randomization:variance=1e-3+secret-sharing:clip_range=8,precision_bits=16"
    shown = " randomization:variance=1e-3 + secret-sharing:clip_range=8,\n    precision_bits=16 "
    assert parse_protection(shown) == parse_protection(plain)
    assert parse_protection(" none\n") == Protection()


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_back(text: str) -> None:
    protection = parse_protection(text)
    assert parse_protection(protection.describe()) == protection


def test_what_texts_mean() -> None:
    assert parse_protection("randomization:variance=1e-3") == Protection((Randomization(1e-3),))
    assert parse_protection("compression:keep=0.1") == Protection((Compression(0.1),))
    layers = LayerCompression(((0.1, 3200), (1.0, 10)))
    assert parse_protection("compression:keep=0.1x3200/1x10").transforms == (layers,)
    assert parse_protection("compression:drop=1e-12").transforms == (Compression.dropping(1e-12),)
    assert parse_protection("secret-sharing:bound=0.1") == Protection((BoundedMask(0.1),))
    assert parse_protection("secret-sharing") == Protection((), SecretSharing())
    assert parse_protection("plain") == parse_protection("none") == Protection()
    assert parse_protection("paillier:bits=4096,mode=blind").transport == Paillier(
        bits=4096, mode="blind"
    )
    assert parse_protection("randomization:variance=1e+1+plain").transforms == (
        Randomization(10.0),
    )


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("", UnknownName, "known: clipping, clipping-schedule, compression"),
        ("randomisation:variance=1", UnknownName, "did you mean 'randomization'"),
        ("randomization", InvalidInput, "randomization:variance=1e-3"),
        ("randomization:varience=1", UnknownName, "did you mean 'variance'"),
        ("randomization:variance=x", InvalidInput, "cannot be read"),
        ("compression:keep=2", InvalidInput, "keep"),
        ("compression:keep=0.1x", InvalidInput, "cannot be read"),
        ("compression:keep=0.1x3/0.5", InvalidInput, "cannot be read"),
        ("compression:keep=0.1x0", InvalidInput, "0.1x3200/1x10"),
        ("compression:keep=1.1x3", InvalidInput, "got 1.1"),
        ("compression", InvalidInput, "keep or drop"),
        ("compression:keep=0.1,drop=0.9", InvalidInput, "keep or drop"),
        ("compression:keep=0.1,unbiased=maybe", InvalidInput, "cannot be read"),
        ("secret-sharing:bound=1,ring_bits=32", InvalidInput, "takes no ring_bits"),
        ("secret-sharing+compression:keep=0.1", InvalidInput, "transport last"),
        ("secret-sharing+paillier", InvalidInput, "two transports"),
        ("paillier:bits=1024", TrilemmaError, "below the floor of 2048"),
        ("none+plain", InvalidInput, "leave none out"),
    ],
)
def test_texts_that_mean_nothing(text: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        parse_protection(text)


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
        ("x" * 5000, "at most 4000 characters, got 5000"),
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
    err = err.removeprefix("attack: reading digits\n")
    assert out == ""
    assert err.startswith("trilemma: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert len(err) < 1000


# A class of someone else's


FOREIGN = "tests.protection.foreign"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{FOREIGN}:Shift:by=0.5", (Shift(0.5),)),
        (f"{FOREIGN}:Shift:by=1e-3,told=half", (Shift(1e-3, "half"),)),
        (f"{FOREIGN}:Rounding", (Rounding(),)),
        (f"{FOREIGN}:Rounding:to=8", (Rounding(8),)),
        (f"{FOREIGN}:Rounding+{FOREIGN}:Shift:by=2", (Rounding(), Shift(2))),
        (f"compression:keep=0.5+{FOREIGN}:Shift:by=2", (Compression(0.5), Shift(2))),
    ],
)
@pytest.mark.parametrize("transport", ["", "+secret-sharing"])
def test_a_transform_of_someone_elses_is_named_and_comes_back(
    text: str, parts: tuple[Shift | Rounding | Compression, ...], transport: str
) -> None:
    protection = parse_protection(text + transport)
    assert protection.transforms == parts
    assert parse_protection(protection.describe()) == protection


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{FOREIGN}:Shift", "lacks a setting; write it as in .*:Shift:by=...,told=..."),
        (f"{FOREIGN}:Shift:bye=1", "did you mean 'by'"),
        (f"{FOREIGN}:Shift:by=1e999", "cannot be read"),
        (f"{FOREIGN}:Shift:by=[1]", "by .* a number"),
        (f"{FOREIGN}:Rounding:to=0", r"is refused \(rounds to no part at all\)"),
        (f"{FOREIGN}:Shift:by=-1", "by .* got -1"),
        (f"{FOREIGN}:Missing", "has no object 'Missing'"),
        (f"{FOREIGN}:Shift.apply", "is no Transform or Transport"),
        ("trilemma.protection.transforms.tunable:Tunable", "lacks apply, explain, reach, warm"),
        ("os:system:command=true", "is no Transform or Transport"),
        ("no_such_module:Shift:by=1", "cannot be imported"),
        ("randomisation:Shift:by=1", "cannot be imported"),
    ],
)
def test_what_is_no_transform_is_named_before_it_is_called(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_protection(text)


def test_what_is_tunable_has_a_name() -> None:
    assert tunable("bounded-masks") is BoundedMask
    assert tunable(f"{FOREIGN}:Shift") is Shift
    with pytest.raises(UnknownName, match="known: bounded-masks, compression, module:class"):
        tunable("noise")
    with pytest.raises(InvalidInput, match="is no Tunable"):
        tunable(f"{FOREIGN}:Rounding")
