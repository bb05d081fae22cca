"""Protections in words: families, what is deployed, and specs with digits that can be read."""

from __future__ import annotations

import re
from typing import Final

from trilemma.protection.specs import parse_protection
from trilemma.reporting.words.numbers import number

__all__ = ["family", "phrase", "short_spec", "strength", "tuned"]

_FAMILIES: Final = {
    "none": "no protection",
    "randomization": "noise",
    "compression": "compression",
    "compression+randomization": "compression and noise",
    "secret-sharing": "secret sharing alone",
    "paillier": "Paillier alone",
    "bounded-masks": "bounded masks",
}
_CARRIERS: Final = {"secret-sharing": "secret sharing", "paillier": "Paillier"}
_STRENGTHS: Final = {
    "randomization": "variance {}",
    "compression+randomization": "variance {}",
    "compression": "{} % kept",
    "bounded-masks": "bound {}",
}
_FRACTION: Final = re.compile(r"(?<==)-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)")


def family(name: str) -> str:
    """A family as people say it; what is no name of ours stays as it is.

    >>> family("randomization+secret-sharing")
    'noise inside secret sharing'
    >>> family("my.package:Blur+paillier")
    'my.package:Blur inside Paillier'
    """
    carried, carrier = _split(name)
    said = _FAMILIES.get(carried, carried)
    return f"{said} inside {_CARRIERS[carrier]}" if carrier else said


def strength(name: str, parameter: float | None) -> str:
    """The strength of a family in words.

    >>> strength("randomization", 0.0012702), strength("compression+paillier", 0.08)
    ('variance 0.00127', '8 % kept')
    >>> strength("paillier", None), strength("randomization+secret-sharing", None)
    ('nothing to tune', 'none needed')
    """
    carried, _ = _split(name)
    if not tuned(carried):
        return "nothing to tune"
    if parameter is None:
        return "none needed"
    form = _STRENGTHS.get(carried, "strength {}")
    return form.format(number(100 * parameter if "%" in form else parameter))


def tuned(name: str) -> bool:
    """Whether a family has a strength; a carrier alone has none.

    >>> tuned("randomization+paillier"), tuned("paillier")
    (True, False)
    """
    return name != "none" and name not in _CARRIERS


def _split(name: str) -> tuple[str, str]:
    """What is carried, and by what, where both are named."""
    carried, _, carrier = name.rpartition("+")
    return (carried, carrier) if carried and carrier in _CARRIERS else (name, "")


def short_spec(spec: str) -> str:
    """A spec whose numbers have three digits: to be read, not to be deployed.

    >>> short_spec("randomization:variance=0.00012702081646218197+secret-sharing:max_weight=1500")
    'randomization:variance=0.000127+secret-sharing:max_weight=1500'
    """
    return _FRACTION.sub(lambda found: number(float(found.group())), spec)


def phrase(spec: str | None) -> str:
    """What a protection does, as the object of "use …".

    >>> phrase("randomization:variance=0.000127+secret-sharing:ring_bits=32")
    'noise of variance 0.000127 inside secret sharing'
    """
    if spec is None or spec == "none":
        return "no protection"
    *transforms, transport = parse_protection(spec).parts
    changed = " and ".join(transform.words(number) for transform in transforms)
    return " inside ".join(filter(None, (changed, transport.words(number))))
