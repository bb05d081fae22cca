"""What is asked: one value, made from flags, from trilemma.toml or by keyword."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from trilemma.beliefs.belief import largest_mean_success_rate, mean_leakage_bound
from trilemma.errors import InvalidInput, UnknownName
from trilemma.observations import Adversary
from trilemma.quantities import between, positive, shown
from trilemma.tuning.presets import PRESETS, Preset
from trilemma.tuning.problem import Problem

__all__ = [
    "BESIDE",
    "KNOWLEDGE",
    "NOT_OF_A_FRONT",
    "Knows",
    "Rate",
    "Request",
    "Settings",
    "knowledge_of",
    "rate_of",
    "require_one_budget",
    "told",
]  # fmt: skip

Knows = Literal["nothing", "public", "candidates", "rest", "anyone"]
_BITS: Final = 63  # of a number: the largest that seeds and files hold
# These decide no number of the others: a run may go on to have them, or more of them.
BESIDE: Final = ("strengths", "minutes")
_OF_A_RECIPE: Final = (
    *("recipe", "clip", "server_step", "momentum", "warm_start", "public_weight", "centring"),
)
# A front has no budget and no weights, and claims nothing.
NOT_OF_A_FRONT: Final = (
    *("budget", "at_most", "preset", "basis", "utility_weight", "efficiency_weight"),
    *("max_utility_loss", "max_cost", "helpers", "person", "threshold", "participation"),
    *(*BESIDE, *_OF_A_RECIPE),
)
_LEAST: Final[Mapping[str, int]] = {
    "rounds": 1,
    "candidates": 2,
    "threshold": 1,
    "helpers": 0,
    "person": 1,
    "restarts": 1,
    "steps": 0,
    "seeds": 2,
    "warm_start": 0,
    "seed": 0,
}
KNOWLEDGE: Final[tuple[Knows, ...]] = ("nothing", "public", "candidates", "rest", "anyone")


def _split(value: Any) -> Any:
    """A text is split at its commas, be it a flag's or one of a list."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    if not isinstance(value, str):
        return value
    if not (parts := tuple(part.strip() for part in value.split(",") if part.strip())):
        raise ValueError("name at least one, or leave it out")
    return parts


def _split_several(value: Any) -> Any:
    return _split(value) if isinstance(value, str) and "," in value else value


def _one_or_several(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    if value == ():
        raise ValueError("give one number, or one a client")
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def knowledge_of(value: Any) -> Any:
    """People say "the rest" where the code says "rest"."""
    said = value.strip() if isinstance(value, str) else ""
    return "rest" if said in ("the rest", "the-rest") else value


def rate_of(value: Any) -> Any:
    """A success rate as people write it, as a number.

    >>> [rate_of(text) for text in ("1 in 8", "25 %", "1/5", 0.1, "0.05")]
    [0.125, 0.25, 0.2, 0.1, 0.05]
    """
    if not isinstance(value, str):
        return value
    text = value.strip().removesuffix("%").strip()
    parts = re.split(r"\s+in\s+|\s+of\s+|/", text)
    try:
        first, *rest = map(float, parts)
        share = first / rest[0] if rest else first
    except (ValueError, ZeroDivisionError):
        share = math.nan
    if len(parts) > 2 or not math.isfinite(share):
        raise ValueError('a rate such as "1 in 6", "17 %" or 0.17 is needed')
    return share / 100 if value.strip().endswith("%") else share


def origin_of(value: Any) -> Any:
    """A number that is given as a text, as a number.

    >>> origin_of("public"), origin_of("0.3")
    ('public', 0.3)
    """
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Origin = Annotated[Literal["public", "none"] | float, BeforeValidator(origin_of), "text"]
Rate = Annotated[float, BeforeValidator(rate_of), "text"]
Weights = Annotated[
    float | tuple[float, ...],
    BeforeValidator(_split_several),
    AfterValidator(_one_or_several),
]


def told(error: ValidationError) -> tuple[str, str]:
    """The first setting that is wrong, and a sentence's end on it: what it is, what is needed."""
    first = error.errors()[0]
    needed = first["msg"].lower().removeprefix("value error, ")
    return str(first["loc"][0]), f"is {shown(first['input'])}: {needed}."


class Settings(BaseModel):
    """Values that a user gives: numbers are numbers, and texts can be shown on a terminal."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any, info: ValidationInfo) -> Any:
        """A "0.9" in a file is no number, nor is True; a weight's flag is a text."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        numbers = {float, int} & {annotation, *get_args(annotation)}
        several = value if isinstance(value, list | tuple) else (value,)
        text = isinstance(value, str) and annotation != float | tuple[float, ...]
        if numbers and (text or any(isinstance(item, bool) for item in several)):
            raise ValueError("a number is needed")
        if isinstance(value, int) and value.bit_length() > _BITS:
            raise ValueError(f"a number of at most {_BITS} bits is needed")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a finite number is needed")
        for item in several:
            if isinstance(item, str) and not item.isprintable():
                raise ValueError("a printable text is needed")
        return value


class Request(Settings):
    """Every setting of a tuning; flags and their help come from here."""

    budget: float = Field(0.3, description="Largest tolerated leakage, between 0 and 1.")
    at_most: Rate | None = Field(
        None,
        description='Or the largest tolerated rate of right guesses, as "1 in 6", whatever the '
        "number of candidates.",
    )
    preset: Preset = Field(
        "usual",
        description="How much work.",
        json_schema_extra={
            "flags": {
                "quick": "A quick look: one round, three families, 90 % confidence, and only "
                "attacks that win anything unprotected.",
                "thorough": "All that can be known: 99 % confidence, more starts and trainings.",
            }
        },
    )
    knows: Annotated[Knows, BeforeValidator(knowledge_of)] = Field(
        "candidates",
        description="Who attacks: knows nothing, public records, the candidates, the rest; or "
        "anyone, by proof.",
    )
    claim: Literal["training", "one-round"] = Field(
        "training", description="The whole training, or one round known to hold the record."
    )
    rounds: int | None = Field(
        None, description="How long the federation trains (default: the scenario's)."
    )
    candidates: int | None = Field(
        None, description="Candidates among which the attacker guesses (default: up to 100)."
    )
    participation: Literal["secret", "known"] | None = Field(
        None,
        description="Whether the attacker knows which rounds held the record; secret, for a proof "
        "alone: batches are drawn, not known to the attacker.",
    )
    families: Names | None = Field(
        None, description="Protections to choose from, joined by commas (default: all)."
    )
    attacks: Names | None = Field(
        None,
        description="Attacks of that knowledge, joined by commas (default: all of it).",
    )
    adversary: Adversary = Field(Adversary.SERVER, description="Who is curious: server or client.")
    server: Literal["curious", "malicious"] = Field(
        "curious",
        description="malicious: in what is measured, the server chooses the weights of the rounds "
        "that it attacks; proofs hold for any.",
    )
    basis: Literal["proved", "measured"] = Field(
        "proved",
        description="Proof where one exists and measurement elsewhere, or measurement alone.",
    )
    confidence: float = Field(0.95, description="Of the budget's claim.")
    utility_weight: Weights = Field(1.0, description="η_u, or one a client joined by commas.")
    efficiency_weight: Weights = Field(0.01, description="η_e, or one a client, by commas.")
    max_utility_loss: float | None = Field(None, description="Cap on the utility loss ε_u.")
    max_cost: float | None = Field(None, description="Cap on the efficiency reduction ε_e.")
    bandwidth: float = Field(100e6, description="Bits a second between client and server.")
    threshold: int | None = Field(
        None, description="Fewest clients whose sum is released (default: two thirds, plus one)."
    )
    helpers: int | None = Field(
        None,
        description="Clients that may help the adversary, for a proof (default: one, where a "
        "round ends with two or more).",
    )
    person: int = Field(1, description="Records that belong to one person, for a proof.")
    restarts: int = Field(
        3, description="An attack of that knowledge keeps the best of so many starts."
    )
    steps: int = Field(20, description="SGD steps of the models at which one round is attacked.")
    recipe: Literal["search", "keep"] = Field(
        "search",
        description="How a proof's trainings go: search takes clip, batch, step, momentum and "
        "centring from a rule made on other data sets, with a warm start and a public gradient "
        "where there are public records; keep is the federation's own batch and step, clipped and "
        "noisy.",
    )
    clip: float | None = Field(
        None, description="Norm to which a proof clips, instead of the recipe's."
    )
    server_step: float | None = Field(
        None, description="First step of the server, instead of the recipe's."
    )
    momentum: float | None = Field(None, description="The server's, instead of the recipe's.")
    warm_start: int | None = Field(
        None, description="Steps on public records before the first round, 0 for none."
    )
    public_weight: float | None = Field(
        None, description="Part of each step that public records make, 0 for none."
    )
    centring: Origin | None = Field(
        None, description="Where layers are centred: public, none, or a number of the range."
    )
    seeds: int = Field(5, description="Paired trainings that measure utility.")
    strengths: int = Field(6, description="Points of each family's curve, 0 for none.")
    seed: int = Field(0, description="Same seed, same numbers.")
    minutes: float | None = Field(
        20.0,
        description="Once there is an answer, attacks end after so many minutes; the same command "
        "goes on with them (default of --thorough: no end).",
    )

    def __init__(self, **settings: Any) -> None:
        for name in settings:
            if name not in type(self).model_fields:
                raise UnknownName("setting", name, type(self).model_fields)
        for preset, own in PRESETS.items():
            if settings.get("preset") == preset:
                settings = {**own, **settings}
        try:
            super().__init__(**settings)
        except ValidationError as error:
            name, fault = told(error)
            raise InvalidInput(f"{name} {fault}") from None
        self._check_numbers()
        self._check_together()

    def _check_numbers(self) -> None:
        """Each number by itself; None was not asked for."""
        given = {name: value for name, value in self if value is not None}
        between("budget (largest tolerated leakage, normalised)", self.budget)
        for name in ("confidence", "at_most"):
            if not 0 < given.get(name, 0.5) < 1:
                raise InvalidInput(f"{name} must lie strictly between 0 and 1, got {given[name]}.")
        for name, least in _LEAST.items():
            if given.get(name, least) < least:
                raise InvalidInput(f"{name} must be at least {least}, got {given[name]}.")
        positive("bandwidth (bits a second)", self.bandwidth)
        for name in ("clip", "server_step", "minutes"):
            positive(name, given.get(name, 1.0))
        for name in ("momentum", "public_weight"):
            if not 0 <= given.get(name, 0.0) < 1:
                raise InvalidInput(f"{name} must lie in [0, 1), got {given[name]}.")
        if self.strengths < 0 or self.strengths == 1:
            raise InvalidInput(
                f"strengths (points of a curve) must be 0 for none, or at least 2, got "
                f"{self.strengths}."
            )
        _ = self.problem  # checks budget, weights and caps

    def _check_together(self) -> None:
        """Settings that contradict one another."""
        if self.basis != "proved":
            for name in _OF_A_RECIPE:
                if getattr(self, name) not in (None, "search"):
                    raise InvalidInput(
                        f"{name}={getattr(self, name)!r} is about the trainings of a proof, and "
                        f"basis={self.basis!r} asks for none; leave one out."
                    )
            if self.knows == "anyone":
                raise InvalidInput(
                    f"knows='anyone' asks for proofs, and basis={self.basis!r} for none; leave "
                    "one out."
                )
        if self.server == "malicious" and self.adversary is Adversary.CLIENT:
            raise InvalidInput(
                "a malicious server is no client's attack; leave out adversary='client', or "
                "server='malicious'."
            )
        if self.participation == "secret" and self.knows != "anyone":
            raise InvalidInput(
                "participation='secret' is for proofs, and other attackers than anyone are "
                "measured with participation known; add knows='anyone', or leave it out."
            )

    @classmethod
    def of(cls, request: Request | None, settings: dict[str, Any]) -> Self | Request:
        """The request itself, or one made of settings by keyword; not both."""
        if request is None:
            require_one_budget(settings)
            return cls(**settings)
        if settings:
            raise InvalidInput(
                f"give a Request or settings by keyword, not both (got {', '.join(settings)})."
            )
        return request

    def resolved(self, kappa: float) -> tuple[Self, float]:
        """The same with both, the leakage and the rate of right guesses that it allows, p_max.

        `kappa` is the rate of a blind guess.
        """
        if self.at_most is None:
            return self, largest_mean_success_rate(self.budget, kappa)
        if self.at_most <= kappa:
            raise InvalidInput(
                f"a rate of at most {self.at_most:.3g} (at_most) cannot be shown among "
                f"{round(1 / kappa)} candidates, where a blind guess is right at {kappa:.3g}; ask "
                f"for a higher rate, or give the clients more records."
            )
        leakage = mean_leakage_bound(self.at_most, kappa)
        return self.model_copy(update={"budget": leakage}), self.at_most

    def decides(self, beside: Collection[str] = BESIDE) -> dict[str, Any]:
        """The settings that decide a number, as plain values: all but those `beside`."""
        return self.model_dump(mode="json", exclude=set(beside))

    @property
    def problem(self) -> Problem:
        """The paper's constrained problem: budget, weights and caps."""
        return Problem(
            self.budget,
            self.utility_weight,
            self.efficiency_weight,
            self.max_utility_loss,
            self.max_cost,
        )


def require_one_budget(settings: Mapping[str, Any]) -> None:
    """Refuse a leakage and a rate together: each says what the other has to be."""
    if settings.get("budget") is not None and settings.get("at_most") is not None:
        raise InvalidInput(
            f"give a budget or at_most, not both (got {shown(settings['budget'])} and "
            f"{shown(settings['at_most'])})."
        )
