"""A whole setting: its parts, and what they come to in a federation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trilemma.errors import InvalidInput, UnknownName
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.protection.protection import Protection
from trilemma.protection.specs import MECHANISMS
from trilemma.protection.transports import PLAIN
from trilemma.tuning.audit.framework_parts import FRAMEWORKS, part_of
from trilemma.tuning.audit.setting_parts import Own, Part

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.game.scenario import Scenario
    from trilemma.protection.transports.base import Transport

__all__ = ["Run", "Setting"]

_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Run:
    """What a setting comes to in a federation.

    `sent` is what clients do, and so what the server reads; `trained` has what the server does
    besides. `recipe` None: clients train as ever. `threshold` clients end a round (None: the usual
    share). `count_noise` is the deviation of the noise on how many were clipped, 0 where nobody
    is told.
    """

    sent: Protection
    trained: Protection
    recipe: Recipe | None
    threshold: int | None
    count_noise: float = 0.0


@dataclass(frozen=True)
class Setting:
    """Parts in the order in which they touch an update.

    `source` is where they were read, and `notes` are what was found there besides.
    """

    parts: tuple[Part, ...]
    source: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Of a text, parts joined by "+", or of a file or folder of a framework.

        >>> Setting.parse("flower.LocalDpMod:clipping_norm=1,sensitivity=1,epsilon=10,delta=1e-5")
        Setting(parts=(LocalDpMod(clipping_norm=1, sensitivity=1, epsilon=10, delta=1e-05),), \
source='', notes=())
        """
        whole = text.strip()
        if not whole:
            raise InvalidInput("a setting is needed, such as nvflare.PercentilePrivacy or none.")
        path, name = Path(whole), re.split(r"[:+ ]", whole, maxsplit=1)[0]
        named = name in ("none", *FRAMEWORKS, *MECHANISMS)
        if not named and (whole.endswith((".toml", ".json")) or _exists(path)):
            return cls._of_file(path)
        return cls(tuple(_part(part) for part in re.split(r"\s*\+\s*(?=[A-Za-z_])", whole)))

    @classmethod
    def _of_file(cls, path: Path) -> Setting:
        from trilemma.tuning.audit.flower_files import read_flower
        from trilemma.tuning.audit.nvflare_files import read_nvflare

        if not path.exists():
            raise InvalidInput(f"there is no file {path}; check its name.")
        app = path / "pyproject.toml" if path.is_dir() else path
        flower = app.is_file() and app.suffix == ".toml"
        read = read_flower(app) if flower else read_nvflare(path)
        return cls(read.parts, str(path), read.notes)

    def describe(self) -> str:
        """As text that is read back as the same parts."""
        return "+".join(part.describe() for part in self.parts)

    def paste(self) -> str:
        """The lines for the framework's own files."""
        return "; ".join(part.paste() for part in self.parts)

    def run(self, scenario: Scenario) -> Run:
        """What it comes to."""
        sent = tuple(one for part in self.parts for one in part.transforms(scenario))
        server = tuple(one for part in self.parts for one in part.at_server(scenario))
        transport = self._transport(scenario)
        training = scenario.local_training
        for part in self.parts:
            training = part.training(training)
        recipe = None
        if training != scenario.local_training:
            recipe = replace(own_recipe(scenario), local_training=training)
        needed = [part.threshold(scenario) for part in self.parts]
        return Run(
            Protection(sent, transport),
            # What the server does it does to what it has read: noise comes last.
            Protection((*sent, *server), transport),
            recipe,
            next(filter(None, needed), None),
            max(part.count_noise(scenario) for part in self.parts),
        )

    def _transport(self, scenario: Scenario) -> Transport:
        """What carries updates, which one part may say."""
        told = [part.transport(scenario) for part in self.parts]
        carried = [item for item in told if item is not None and item != PLAIN]
        if len(carried) > 1:
            raise InvalidInput(
                f"{self.describe()} names two transports; an update travels by one."
            )
        return carried[0] if carried else PLAIN

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        """What somebody who runs it should know."""
        own = (said for part in self.parts for said in part.remarks(scenario))
        return (*self.notes, *own)

    def noisier(self, factor: float) -> Setting | None:
        """The same with so many times the noise; None where no part adds any."""
        for place, part in enumerate(self.parts):
            if (made := part.noisier(factor)) is not None:
                return self._with(place, made)
        return None

    def stronger(self) -> Iterator[Setting]:
        """The same kinds, more and more protective, by the first part that can be."""
        for place, part in enumerate(self.parts):
            several = [self._with(place, item) for item in part.stronger()]
            if several:
                yield from several
                return

    def _with(self, place: int, part: Part) -> Setting:
        return Setting((*self.parts[:place], part, *self.parts[place + 1 :]))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a text that no file system takes for a name
        return False


def _part(text: str) -> Part:
    name, _, settings = text.strip().partition(":")
    if name in FRAMEWORKS:
        return part_of(name, _settings(text, settings))
    if "." in name and ":" not in settings:
        raise UnknownName("setting", name, [*FRAMEWORKS, *MECHANISMS])
    if name == "none":
        return Own("none")
    if name not in MECHANISMS and ":" not in text:
        raise UnknownName("setting", name, [*FRAMEWORKS, *MECHANISMS, "none"])
    return Own(text.strip())


def _settings(text: str, settings: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in settings.split(",") if settings else ():
        key, equals, value = (item.strip() for item in setting.partition("="))
        if not equals or not key or not value:
            raise InvalidInput(
                f"{setting!r:.80} in {text!r:.120} cannot be read; write name=value, joined by "
                "commas."
            )
        if key in values:
            raise InvalidInput(f"{text!r:.120} sets {key} twice; write it once.")
        values[key] = _value(key, value)
    return values


def _value(key: str, text: str) -> Any:
    if key == "exclude_vars":  # names joined by "/", or one regular expression
        return tuple(text.split("/")) if "/" in text else text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
