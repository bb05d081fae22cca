"""Protections as text, for the command line, for files and for reports.

Ours go by short names; a transform or transport of your own goes as module:class, with its
settings behind a second colon. `TUNABLE` and `tunable` are the same for what `tune` ranks.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from trilemma.errors import InvalidInput, UnknownName
from trilemma.naming import load_object
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression, LayerCompression
from trilemma.protection.transforms.omission import Omission
from trilemma.protection.transforms.percentile import Percentile
from trilemma.protection.transforms.quantisation import Quantisation
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.sparse_vector import SparseVector
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transforms.tunable import Tunable
from trilemma.protection.transforms.update_clipping import Clipping, ClippingSchedule
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

__all__ = ["MECHANISMS", "TUNABLE", "in_words", "parse_protection", "tunable"]

_MAX_CHARACTERS: Final = 4000  # room for a share of each layer
_WORDS: Final = {"true": True, "false": False, "none": None}
_SHOWN: Final = 80  # of a text that an error quotes
Layers = tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class _Spec:
    make: Callable[..., Transform | Transport]
    settings: Mapping[str, Callable[[str], Any]]
    example: str


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _rates(text: str) -> float | Layers:
    """One probability, or probability x coordinates of each layer."""
    if "x" not in text:
        return float(text)
    layers = (layer.split("x") for layer in text.split("/"))
    return tuple((float(keep), int(count)) for keep, count in layers)


def _norms(text: str) -> tuple[float, ...]:
    return tuple(float(norm) for norm in text.split("/"))


def _spans(text: str) -> tuple[tuple[int, int], ...]:
    pairs = (span.split("-") for span in text.split("/"))
    return tuple((int(start), int(stop)) for start, stop in pairs)


def _compression(
    keep: float | Layers | None = None, drop: float | None = None, unbiased: bool = True
) -> Transform:
    if (keep is None) == (drop is None):
        given = "neither" if keep is None else "both"
        raise InvalidInput(
            f"compression takes keep or drop, got {given}; write e.g. compression:keep=0.1."
        )
    if isinstance(keep, tuple):
        return LayerCompression(keep, unbiased)
    if keep is not None:
        return Compression(keep, unbiased)
    return Compression.dropping(float(drop or 0.0), unbiased)


def _secret_sharing(bound: float | None = None, **settings: Any) -> Transform | Transport:
    if bound is None:
        return SecretSharing(**settings)
    if settings:
        raise InvalidInput(
            f"secret-sharing:bound=... is the paper's mask and takes no {next(iter(settings))}; "
            "leave bound out for secure aggregation."
        )
    return BoundedMask(bound)


_FIXED_POINT: Final[dict[str, Callable[[str], Any]]] = {
    "clip_range": float,
    "precision_bits": int,
    "max_weight": int,
}
MECHANISMS: Final[Mapping[str, _Spec]] = MappingProxyType(
    {
        "clipping": _Spec(Clipping, {"norm": float}, "clipping:norm=1"),
        "clipping-schedule": _Spec(
            ClippingSchedule, {"norms": _norms, "noise": float}, "clipping-schedule:norms=1.0/0.5"
        ),
        "compression": _Spec(
            _compression,
            {"keep": _rates, "drop": float, "unbiased": _truth},
            "compression:keep=0.1",
        ),
        "omission": _Spec(Omission, {"dropped": _spans}, "omission:dropped=0-640/680-690"),
        "paillier": _Spec(
            Paillier,
            {"bits": int, "mode": str, **_FIXED_POINT},
            "paillier:bits=3072,mode=blind",
        ),
        "percentile": _Spec(
            Percentile,
            {"percentile": float, "gamma": float, "steps": int},
            "percentile:percentile=10,gamma=0.01",
        ),
        "plain": _Spec(Plain, {}, "plain"),
        "quantisation": _Spec(
            Quantisation, {"bits": int, "reach": float}, "quantisation:bits=8,reach=1"
        ),
        "randomization": _Spec(
            Randomization, {"variance": float, "clip": float}, "randomization:variance=1e-3"
        ),
        "secret-sharing": _Spec(
            _secret_sharing,
            {"bound": float, "corrupt": float, "ring_bits": int, **_FIXED_POINT},
            "secret-sharing:ring_bits=32",
        ),
        "sparse-vector": _Spec(
            SparseVector,
            {
                **dict.fromkeys(("fraction", "epsilon", "noise_var", "gamma", "tau"), float),
                **dict.fromkeys(("epsilon_threshold", "epsilon_query", "epsilon_release"), float),
                "replace": _truth,
                "steps": int,
            },
            "sparse-vector:fraction=0.1,epsilon=0.1",
        ),
        "top-k": _Spec(TopK, {"keep": float}, "top-k:keep=0.01"),
    }
)
"""Name -> how to make it from text."""

TUNABLE: Final[Mapping[str, type[Tunable]]] = MappingProxyType(
    {"randomization": Randomization, "compression": Compression, "bounded-masks": BoundedMask}
)
"""Name -> a transform with one free parameter."""


def parse_protection(text: str) -> Protection:
    """The protection that a text names; `Protection.describe` is the inverse.

    Parts are joined by "+", in the order in which a client applies them, the transport last. A
    part of your own is module:class:settings; importing the module runs its code. Blanks may stand
    around "+" and ",", as they do where a verdict is shown.

    >>> parse_protection("none") == Protection()
    True
    >>> parse_protection("compression:keep=0.1+randomization:variance=1e-3").describe()
    'compression:keep=0.1+randomization:variance=0.001'
    """
    if text.strip() == "none":
        return Protection()
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInput(
            f"a protection takes at most {_MAX_CHARACTERS} characters, got {len(text)}; name each "
            "part and setting once."
        )
    transforms: list[Transform] = []
    transports: list[Transport] = []
    for part in re.split(r"\s*\+\s*(?=[A-Za-z_])", text.strip()):  # 1e+3 is a number
        if part == "none":
            raise InvalidInput(f"{_quoted(text)} joins none with others; leave none out.")
        made = _parse(part)
        if isinstance(made, Transport):
            transports.append(made)
        elif transports:
            raise InvalidInput(
                f"{_quoted(part)} comes after the transport in {_quoted(text)}; write the "
                "transport last."
            )
        else:
            transforms.append(made)
    if len(transports) > 1:
        raise InvalidInput(f"{_quoted(text)} names two transports; an update travels by one.")
    return Protection(tuple(transforms), *transports)


def tunable(name: str) -> type[Tunable]:
    """The class of a transform with one free parameter: ours by name, yours as module:class.

    >>> tunable("compression").parameter.symbol
    'ρ'
    """
    if name in TUNABLE:
        return TUNABLE[name]
    if ":" not in name:
        raise UnknownName("mechanism", name, [*TUNABLE, "module:class"])
    made: type[Tunable] = _loaded(name, Tunable)
    return made


def _parse(part: str) -> Transform | Transport:
    name, _, settings = part.partition(":")
    if name in MECHANISMS:
        spec = MECHANISMS[name]
    else:
        # Behind the first colon stand our settings, or your class.
        path, _, settings = settings.partition(":")
        if not path or "=" in path:
            raise UnknownName("protection", name, [*MECHANISMS, "none", "module:class"])
        name = f"{name}:{path}"
        spec = _foreign(name)
    values: dict[str, Any] = {}
    for setting in settings.split(",") if settings else ():
        key, _, value = setting.strip().partition("=")
        if key not in spec.settings:
            raise UnknownName(f"setting of {name}", key, spec.settings)
        if key in values:
            raise InvalidInput(f"{_quoted(part)} sets {key} twice; write it once.")
        try:
            values[key] = spec.settings[key](value)
        except (ValueError, KeyError):
            raise InvalidInput(
                f"{_quoted(setting)} in {_quoted(part)} cannot be read; write it as in "
                f"{spec.example}."
            ) from None
    try:
        inspect.signature(spec.make).bind(**values)
    except TypeError:
        raise InvalidInput(
            f"{_quoted(part)} lacks a setting; write it as in {spec.example}."
        ) from None
    try:
        return spec.make(**values)
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:  # of a constructor that is not ours
        raise InvalidInput(f"{_quoted(part)} is refused ({error}).") from error


def _foreign(name: str) -> _Spec:
    """A class of someone else's, with the settings that its constructor takes."""
    made = _loaded(name, Transform, Transport)
    settings = dict.fromkeys(inspect.signature(made).parameters, _literal)
    example = ",".join(f"{setting}=..." for setting in settings)
    return _Spec(made, settings, f"{name}:{example}" if example else name)


def _loaded(name: str, *kinds: type) -> Any:
    """The class that module:class names, which must be one of these before it is called."""
    found = load_object("protection", name)
    if not (isinstance(found, type) and issubclass(found, kinds)):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidInput(
            f"{_quoted(name)} is no {wanted}; name a class that inherits from one, or one of "
            f"{', '.join(MECHANISMS)}."
        )
    if missing := getattr(found, "__abstractmethods__", None):
        missing = ", ".join(sorted(missing))
        raise InvalidInput(f"{_quoted(name)} lacks {missing}; write what is missing.")
    return found


def _literal(text: str) -> float | bool | str | None:
    """A setting as `describe` writes it: a number, a truth value, None, or a word.

    >>> [_literal(text) for text in ("3", "1e-3", "True", "'word'", "word")]
    [3, 0.001, True, 'word', 'word']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        raise ValueError(text)
    return int(text) if text.lstrip("+-").isdigit() else value


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def in_words(spec: str) -> str:
    """A protection in words, with numbers of three digits.

    >>> in_words("randomization:variance=0.0191552+secret-sharing")
    'noise of variance 0.0192 inside secret sharing'
    """
    if spec == "none":
        return "unprotected updates"
    *transforms, transport = parse_protection(spec).parts
    changed = " and ".join(
        transform.words(lambda value: f"{value:.3g}") for transform in transforms
    )
    return " inside ".join(filter(None, (changed, transport.words(lambda value: f"{value:.3g}"))))
