"""Protections, mechanisms, criteria and objects as texts."""

from __future__ import annotations

import importlib
import math
from dataclasses import fields
from pathlib import Path
from random import Random

from benchmarks.fuzzing.hostile import name, noise, number, spoilt_text
from benchmarks.fuzzing.judging import Wrong, require
from trilemma.attacks import get
from trilemma.beliefs.recovery import Criterion
from trilemma.naming import load_object
from trilemma.protection.protection import Protection
from trilemma.protection.specs import MECHANISMS, parse_protection, tunable
from trilemma.protection.transforms.quantisation import Quantisation

__all__ = ["names", "specs"]

GOOD = (
    *("none", "plain", "compression:keep=0.1", "compression:drop=6.9e-17", "top-k:keep=0.01"),
    *("compression:keep=0.1x3200/1.0x10", "compression:keep=0.25,unbiased=false"),
    *("randomization:variance=1e-3", "randomization:variance=1e-3,clip=2.5"),
    *("randomization:variance=1e+3+compression:keep=0.5", "secret-sharing:bound=0.5"),
    "randomization:variance=1e-3+secret-sharing",
    "secret-sharing:clip_range=8.0,precision_bits=18,ring_bits=64,max_weight=1500",
    "randomization:variance=0.1,clip=1.0+paillier:bits=2048,mode=blind,precision_bits=20",
    "paillier:bits=3072,mode=open,clip_range=2.0,precision_bits=16,max_weight=100",
    "trilemma.protection.transforms.randomization:Randomization:variance=0.5",
    "trilemma.protection.transports.secret_sharing.aggregation_transport:SecretSharing:ring_bits=64",
)
OBJECTS = (
    *(
        "math:floor",
        "math:nothing",
        "math:floor.__name__",
        "math:nothing.__class__",
        "math:",
        ":x",
    ),
    *(
        "json:decoder.JSONDecoder",
        "no_such_module:x",
        ".relative:x",
        "..:x",
        "a b:c",
        "os:environ",
    ),
    *("trilemma.attacks.dlg:DLG", "trilemma.protection.transforms.top_k:TopK", "math", "a:b:c"),
    "trilemma.protection.transforms.randomization:Randomization",
)


def specs(draw: Random, _: Path) -> None:
    """What is parsed is in its domain, and says what it is: its text gives it again."""
    made = parse_protection(_spec(draw))
    text = made.describe()
    require(parse_protection(text) == made, f"another protection from its own text {text!r:.200}")
    require(parse_protection(text).describe() == text, f"another text from {text!r:.200}")
    _check(made)


def names(draw: Random, _: Path) -> None:
    """module:object for anyone, attacks and mechanisms by name, criteria, budgets of noise."""
    kind = draw.randrange(4)
    text = draw.choice(OBJECTS) if draw.random() < 0.5 else spoilt_text(draw, draw.choice(OBJECTS))
    if kind == 0:
        found = load_object("thing", text)
        module, path = text.split(":", 1)
        expected: object = importlib.import_module(module)
        for part in path.split("."):
            expected = getattr(expected, part)
        require(found is expected or found == expected, f"another object than {text!r}")
    elif kind == 1:
        made = get(draw.choice((text, "dlg", "map", name(draw))))
        require(bool(made.name), "an attack without a name")
    elif kind == 2:
        require(bool(tunable(text).parameter.symbol), "a mechanism without a parameter")
    else:
        _criterion(f"{draw.choice(('psnr', 'ssim', name(draw)))}:{number(draw)}")


def _criterion(text: str) -> None:
    made = Criterion.parse(text)
    again = Criterion.parse(f"{made.metric}:{made.threshold!r}")
    require(again == made and math.isfinite(made.threshold), f"another criterion than {text!r}")
    require(made.metric == "psnr" or 0 < made.threshold < 1, f"an SSIM of {made.threshold}")


def _spec(draw: Random) -> str:
    kind = draw.random()
    if kind < 0.25:
        return "+".join(_part(draw) for _ in range(draw.choice((1, 1, 1, 2, 2, 3))))
    if kind < 0.45:
        return draw.choice(GOOD)
    if kind < 0.9:
        return spoilt_text(draw, draw.choice(GOOD))
    return noise(draw, draw.choice((0, 1, 5, 40, 5000)))


def _part(draw: Random) -> str:
    """One part by the grammar, its numbers hostile or not."""
    mechanism = draw.choice(list(MECHANISMS))
    settings = list(MECHANISMS[mechanism].settings)
    chosen = draw.sample(settings, draw.randint(0, min(3, len(settings))))
    if draw.random() < 0.1:
        chosen.append(draw.choice((*settings, name(draw))))
    shown = ",".join(f"{key}={_value(draw, key)}" for key in chosen)
    return f"{mechanism}:{shown}" if shown else mechanism


def _value(draw: Random, key: str) -> str:
    if key == "mode":
        return draw.choice(("open", "blind", name(draw)))
    if key == "unbiased":
        return draw.choice(("true", "false", "True", number(draw)))
    if key == "keep" and draw.random() < 0.3:
        return "/".join(f"{number(draw)}x{number(draw)}" for _ in range(draw.randint(1, 3)))
    if key in ("bits", "precision_bits", "ring_bits") and draw.random() < 0.5:
        return str(draw.choice((0, 1, 2, 16, 32, 33, 64, 2047, 2048, 3072, 16384, 16385)))
    return number(draw)


def _check(protection: Protection) -> None:
    """The domains, written down once more."""
    for part in protection.parts:
        for field in fields(part):  # type: ignore[arg-type]
            value = getattr(part, field.name)
            least, most = _DOMAINS.get(field.name, (None, None))
            if field.name == "bits" and isinstance(part, Quantisation):
                least, most = 1, 16  # of a coordinate, not of a key
            if value is None or least is None or most is None:
                continue
            if not (math.isfinite(value) and least <= value <= most):
                raise Wrong(f"{field.name} = {value} was accepted in {protection.describe():.200}")
        for keep, count in getattr(part, "layers", ()):
            require(1e-100 <= keep <= 1 and count >= 1, f"a layer of {count} kept at {keep}")


_DOMAINS = {
    "keep": (1e-100, 1.0),
    "drop": (0.0, 1.0),
    "variance": (1e-100, 1e100),
    "clip": (1e-100, 1e100),
    "bound": (1e-100, 1e100),
    "clip_range": (1e-100, 1e100),
    "precision_bits": (2, 32),
    "ring_bits": (32, 64),
    "max_weight": (1, 2**62),
    "bits": (2048, 16384),
}
