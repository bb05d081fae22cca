"""Values that break programs, and ways to spoil good ones: texts, bytes, JSON documents."""

from __future__ import annotations

import json
from random import Random
from typing import Any

NUMBERS = (
    *("nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1e999", "5e-324", "-5e-324", "1e-320"),
    *("-0", "-0.0", "0", "1", "2", "3", "-1", "0.3", "0.5", "1e-3", "1e308", "1e100", "1e-100"),
    *(
        "1e101",
        "1e-101",
        "1_000",
        "0x10",
        "0b1",
        "1e",
        "1e+3",
        "١٢",
        "𝟛",
        "½",
        "1,5",
        "",
        " ",
        "+",
    ),
    *("9" * 30, "9" * 400, "9" * 5000, str(2**31), str(2**63), str(2**64), str(-(2**63))),
    *("0.9999999999999999", "1.0000000000000002", "64", "2048", "3072", "16", "100"),
)
NAMES = (
    *(
        "\x1b[31mred",
        "\x1b]0;owned\x07",
        "\x9b2J",
        "a\nb",
        "a\r\nb",
        "\t",
        "\x7f",
        "\x85",
        "\u2028",
    ),
    *("\u202eevil", "\u200b", "\udcff", "\ud800", "é", "🦉", "a" * 300, "b" * 5000, "?", "a?b"),
    *("%", "%s", "50%", "{", "}", "{0}", "{x}", "{{", "#1", "a b", "..", ".", "/", "~", "-", "--"),
    *("'", '"', "`", "$(x)", ";", "\\", "\\x1b", "<b>", "&", "*", "[", "=", ":", "+", ",", "a:b"),
    *(
        "none",
        "None",
        "true",
        "null",
        "nan",
        "digits",
        "randomization",
        "math:floor",
        "os:environ",
    ),
)
JSONS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 0.5, -0.5, 1.5, -0.0, 5e-324, 1e308, float("nan")),
    *(
        float("inf"),
        -float("inf"),
        2**31,
        2**63,
        2**64,
        -(2**70),
        10**400,
        "",
        "1e999",
        "0.3",
        "x",
    ),
    *([], {}, [None], {"": None}, [[]], {"value": 1}),
)


def number(draw: Random) -> str:
    """A text where a number belongs."""
    if draw.random() < 0.3:
        return repr(draw.choice((draw.random(), draw.randint(-3, 40), 10 ** draw.uniform(-9, 9))))
    return draw.choice(NUMBERS)


def name(draw: Random) -> str:
    """A text where a name belongs."""
    if draw.random() < 0.2:
        return noise(draw, draw.randint(0, 12))
    return draw.choice(NAMES)


def noise(draw: Random, length: int) -> str:
    """Characters from all over."""
    ranges = (
        (0, 0x1F),
        (0x20, 0x7E),
        (0x20, 0x7E),
        (0x80, 0x2FF),
        (0xD800, 0xDFFF),
        (0, 0x10FFFF),
    )
    return "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(length))


def spoilt_text(draw: Random, text: str) -> str:
    """A text with one to three changes."""
    for _ in range(draw.randint(1, 3)):
        start = draw.randint(0, len(text))
        end = min(len(text), start + draw.choice((0, 1, 1, 2, 8, 40)))
        piece = draw.choice(
            (
                *("", text[start:end] * 2, draw.choice(NUMBERS), draw.choice(NAMES)),
                *(
                    noise(draw, 2),
                    draw.choice("+:,=x/.[]{}()\"'\\\n\0 "),
                    chr(draw.randrange(128)),
                ),
                *(text[start:end].swapcase(), text[start:end][::-1]),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


def spoilt_bytes(draw: Random, data: bytes) -> bytes:
    """Bytes with one to three changes: bits flipped, cut, doubled, added, zeroed."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        place = draw.randrange(len(made)) if made else 0
        kind = draw.randrange(8)
        if kind <= 2 and made:
            made[place] ^= 1 << draw.randrange(8)
        elif kind == 3:
            del made[place:]
        elif kind == 4:
            del made[place : place + draw.choice((1, 2, 8))]
        elif kind == 5:
            made[place:place] = made[place : place + 8]
        elif kind == 6:
            made += draw.randbytes(draw.choice((1, 4, 8, 16)))
        else:
            filling = draw.choice((b"\0", b"\xff", b"\x7f"))
            made[place : place + 8] = filling * min(8, len(made) - place)
    return bytes(made)


def spoilt_json(draw: Random, document: Any) -> str:
    """A JSON text: the document with one to three changes, or its text spoilt."""
    copy = json.loads(json.dumps(document))
    for _ in range(draw.randint(1, 3)):
        _change(draw, copy)
    text = json.dumps(copy)
    kind = draw.random()
    if kind < 0.06:
        depth = draw.choice((50, 900, 5_000, 200_000))
        opening, closing = draw.choice((("[", "]"), ('{"a":', "}")))
        nested = opening * depth + "1" + closing * depth
        kept, _, rest = text.partition(": ")
        return f"{kept}: {nested}{rest[rest.find(',') :]}"
    if kind < 0.12:
        place = text.find('": ', draw.randrange(len(text)))
        start = text.rfind('"', 0, place)
        member = text[start:place] + '": ' + json.dumps(draw.choice(JSONS)) + ", "
        return text[:start] + member + text[start:] if place > 0 else text
    if kind < 0.2:
        return spoilt_text(draw, text)
    return text


def _change(draw: Random, document: Any) -> None:
    """Change one place of a document: another value, another type, gone, doubled or added."""
    parent, key = _place(draw, document)
    if parent is None:
        return
    kind = draw.random()
    if kind < 0.15:
        del parent[key]
    elif kind < 0.25 and isinstance(parent, dict):
        parent[draw.choice((name(draw), f"{key} "))] = draw.choice(JSONS)
    elif kind < 0.35 and isinstance(parent, list):
        parent.insert(draw.randint(0, len(parent)), parent[key])
    elif kind < 0.5:
        parent[key] = str(parent[key]) if draw.random() < 0.5 else [parent[key]]
    elif kind < 0.65 and isinstance(parent[key], int | float):
        parent[key] = draw.choice((-parent[key], parent[key] * 1e6, parent[key] + 1, 1e-12))
    elif kind < 0.75:
        parent[key] = name(draw)
    else:
        parent[key] = draw.choice(JSONS)


def _place(draw: Random, document: Any) -> tuple[Any, Any]:
    """A random member of a random part of the document."""
    parent, key, here = None, None, document
    while isinstance(here, dict | list) and here and (parent is None or draw.random() < 0.75):
        parent = here
        key = draw.choice(list(here)) if isinstance(here, dict) else draw.randrange(len(here))
        here = here[key]
    return parent, key
