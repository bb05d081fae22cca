"""Protections as text, for the command line and for reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from trilemma.errors import InvalidInput, UnknownName
from trilemma.protections.protection import Protection
from trilemma.protections.protocol import Transform, Transport
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression, TopK
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.plain import Plain
from trilemma.protections.transports.secret_sharing.transport import SecretSharing

__all__ = ["MECHANISMS", "parse_protection"]

_MAX_CHARACTERS: Final = 500  # more than all parts and settings together need


@dataclass(frozen=True)
class _Spec:
    make: Callable[..., Transform | Transport]
    settings: Mapping[str, Callable[[str], Any]]
    example: str


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _compression(
    keep: float | None = None, drop: float | None = None, unbiased: bool = True
) -> Compression:
    if (keep is None) == (drop is None):
        raise InvalidInput("compression takes keep or drop, e.g. compression:keep=0.1.")
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
        "compression": _Spec(
            _compression,
            {"keep": float, "drop": float, "unbiased": _truth},
            "compression:keep=0.1",
        ),
        "paillier": _Spec(
            Paillier,
            {"bits": int, "mode": str, **_FIXED_POINT},
            "paillier:bits=3072,mode=blind",
        ),
        "plain": _Spec(Plain, {}, "plain"),
        "randomization": _Spec(
            Randomization, {"variance": float, "clip": float}, "randomization:variance=1e-3"
        ),
        "secret-sharing": _Spec(
            _secret_sharing,
            {"bound": float, "ring_bits": int, **_FIXED_POINT},
            "secret-sharing:ring_bits=32",
        ),
        "top-k": _Spec(TopK, {"keep": float}, "top-k:keep=0.01"),
    }
)
"""Name -> how to make it from text."""


def parse_protection(text: str) -> Protection:
    """The protection that a text names; `Protection.describe` is the inverse.

    Parts are joined by "+", in the order in which a client applies them, the transport last.

    >>> parse_protection("none") == Protection()
    True
    >>> parse_protection("compression:keep=0.1+randomization:variance=1e-3").describe()
    'compression:keep=0.1+randomization:variance=0.001'
    """
    if text == "none":
        return Protection()
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInput(
            f"a protection takes at most {_MAX_CHARACTERS} characters, got {len(text)}; name each "
            "part and setting once."
        )
    transforms: list[Transform] = []
    transports: list[Transport] = []
    for part in re.split(r"\+(?=[a-z])", text):  # 1e+3 is a number
        if part == "none":
            raise InvalidInput(f"{text!r} joins none with others; leave none out.")
        made = _parse(part)
        if isinstance(made, Transport):
            transports.append(made)
        elif transports:
            raise InvalidInput(
                f"{part!r} comes after the transport in {text!r}; write the transport last."
            )
        else:
            transforms.append(made)
    if len(transports) > 1:
        raise InvalidInput(f"{text!r} names two transports; an update travels by one.")
    return Protection(tuple(transforms), *transports)


def _parse(part: str) -> Transform | Transport:
    name, _, settings = part.partition(":")
    if name not in MECHANISMS:
        raise UnknownName("protection", name, [*MECHANISMS, "none"])
    spec = MECHANISMS[name]
    values = {}
    for setting in settings.split(",") if settings else ():
        key, _, value = setting.partition("=")
        if key not in spec.settings:
            raise UnknownName(f"setting of {name}", key, spec.settings)
        if key in values:
            raise InvalidInput(f"{part!r} sets {key} twice; write it once.")
        try:
            values[key] = spec.settings[key](value)
        except (ValueError, KeyError):
            raise InvalidInput(
                f"{setting!r} in {part!r} cannot be read; write it as in {spec.example}."
            ) from None
    try:
        return spec.make(**values)
    except TypeError:
        raise InvalidInput(f"{part!r} lacks a setting; write it as in {spec.example}.") from None
