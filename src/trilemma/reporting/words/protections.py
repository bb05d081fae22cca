"""Protections in words: families, what is deployed, and specs with digits that can be read."""

from __future__ import annotations

import re
from typing import Final

from trilemma.protections.specs import parse_protection
from trilemma.reporting.words.numbers import number

__all__ = ["family", "phrase", "short_spec", "strength", "tuned"]

_FAMILIES: Final = {
    "none": "no protection",
    "randomization": "noise",
    "randomization+secret-sharing": "noise inside secret sharing",
    "randomization+paillier": "noise inside Paillier",
    "compression": "compression",
    "compression+randomization": "compression and noise",
    "secret-sharing": "secret sharing alone",
    "paillier": "Paillier alone",
    "bounded-masks": "bounded masks",
    "compression+secret-sharing": "compression inside secret sharing",
}
_STRENGTHS: Final = {
    "randomization": "variance {}",
    "compression": "{} % kept",
    "bounded-masks": "bound {}",
}
_FRACTION: Final = re.compile(r"(?<==)-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)")


def family(name: str) -> str:
    """A family as people say it; a name that is not a family's stays as it is.

    >>> family("randomization+secret-sharing"), family("surrogate compression")
    ('noise inside secret sharing', "the paper's compression")
    """
    if name.startswith("surrogate "):
        return f"the paper's {family(name.removeprefix('surrogate '))}"
    return _FAMILIES.get(name, name)


def strength(name: str, parameter: float | None) -> str:
    """The strength of a family in words.

    >>> strength("randomization", 0.0012702), strength("compression", 0.08), strength("paillier",
    ... None), strength("randomization+secret-sharing", None)
    ('variance 0.00127', '8 % kept', 'nothing to tune', 'none needed')
    """
    plain = name.removeprefix("surrogate ")
    if not tuned(plain):
        return "nothing to tune"
    if parameter is None:
        return "none needed"
    mechanism = plain.rsplit("+", 1)[-1] if plain == "compression+randomization" else plain
    form = _STRENGTHS.get(mechanism.split("+")[0], "strength {}")
    return form.format(number(100 * parameter if "%" in form else parameter))


def tuned(name: str) -> bool:
    """Whether a family has a strength; a carrier alone has none.

    >>> tuned("randomization+paillier"), tuned("paillier")
    (True, False)
    """
    return name not in ("none", "secret-sharing", "paillier")


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
    changed = " and ".join(each.words(number) for each in transforms)
    return " inside ".join(filter(None, (changed, transport.words(number))))
