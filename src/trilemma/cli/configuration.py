"""The settings of a command: from trilemma.toml and from flags, which win."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, Field, ValidationError

from trilemma.errors import InvalidInput, UnknownName
from trilemma.settings import Federated, Searched, own_flags
from trilemma.tuning.request import Request, require_one_budget, told

__all__ = [
    "DEFAULT_FILE", "Running", "SettingsArgument", "TrustOption", "from_flags", "read_settings",
    "with_flags",
]  # fmt: skip

DEFAULT_FILE = Path("trilemma.toml")
SettingsArgument = Annotated[
    Path | None, typer.Argument(help="A file of settings [trilemma.toml, if it exists].")
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Import the modules that the file names, which runs their code."),
]


# One file serves every command of a folder: each takes what it knows of, and a name that none
# knows is a mistake in writing.
_OF_A_FILE: Final = {
    name for model in (Federated, Request, Searched) for name in model.model_fields
}


class Running(BaseModel):
    """How a command that measures runs; it decides no number."""

    workers: int = Field(default=1, description="Processes to spread the work over.")
    ray: str | None = Field(
        default=None, description="Address of a Ray cluster for the workers, or auto."
    )
    out: Path | None = Field(
        default=None, description="Run folder; the same command resumes there."
    )
    fresh: bool = Field(default=False, description="Start the run folder over.")
    as_json: bool = Field(default=False, description="Print one JSON object.")

    @property
    def work(self) -> dict[str, Any]:
        """Where the work is done, and whether it starts over."""
        return {"workers": self.workers, "ray": self.ray, "fresh": self.fresh}


def with_flags(
    *models: type[BaseModel], leave_out: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command one flag for each field of the models and of `Running`, with its help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [
            parameter
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        every: list[type[BaseModel]] = [*models, Running]
        made = [
            inspect.Parameter(
                flag, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for model in every
            for name, field in model.model_fields.items()
            if name not in leave_out
            for flag, annotation in _flags(name, field)
        ]
        command.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
        command.__annotations__ = {value.name: value.annotation for value in (*own, *made)}
        return command

    return decorate


def _flags(name: str, field: Any) -> Iterator[tuple[str, Any]]:
    for choice, described in own_flags(field).items():
        yield choice, Annotated[bool | None, typer.Option(f"--{choice}", help=described)]
    if not own_flags(field):
        yield name, _flag(name, field)


def _flag(name: str, field: Any) -> Any:
    default = field.default
    if default is False:
        named = f"--{name.removeprefix('as_')}"
        return Annotated[bool | None, typer.Option(named, help=field.description)]
    shown = "" if default is None else f" [{getattr(default, 'value', default)}]"
    described = typer.Option(help=f"{field.description}{shown}")
    return Annotated[_flag_type(field.annotation), described]


def _flag_type(annotation: Any) -> Any:
    """What a flag is read as; None says that it was not given."""
    parts = [part for part in _parts(annotation) if part is not type(None)]
    if "text" in _marks(annotation) or any(get_origin(part) is tuple for part in parts):
        return str | None
    return parts[0] | None


def _marks(annotation: Any) -> tuple[Any, ...]:
    """What annotates a type, or one of its alternatives."""
    own = getattr(annotation, "__metadata__", ())
    return (*own, *(mark for argument in get_args(annotation) for mark in _marks(argument)))


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without their validators."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Literal, tuple) or not get_args(annotation):
        return (annotation,)
    return tuple(part for argument in get_args(annotation) for part in _parts(argument))


def read_settings(
    path: Path | None, flags: Mapping[str, Any], *models: type[BaseModel]
) -> tuple[Any, ...]:
    """One value of each model: the file's settings, overridden by flags; then the `Running`.

    What the file says for other commands is left to them.
    """
    chosen = path
    if path is None and DEFAULT_FILE.exists():
        chosen = DEFAULT_FILE
    found: dict[str, Any] = {} if chosen is None else _read(chosen)
    known = {name for model in models for name in model.model_fields}
    for name in found:
        if name not in _OF_A_FILE:
            raise UnknownName(f"setting in {chosen}", name, sorted(_OF_A_FILE))
    given = {name: flags[name] for name in known if flags.get(name) is not None}
    for model in models:
        given |= _chosen(model, flags)
    if "at_most" in given:  # a flag wins over the file's other word for the same thing
        found.pop("budget", None)
    elif "budget" in given:
        found.pop("at_most", None)
    require_one_budget({**found, **given})
    where = "the settings" if chosen is None else str(chosen)
    made = (_made(model, {**found, **given}, given, where) for model in models)
    return (*made, *from_flags(flags, Running))


def _chosen(model: type[BaseModel], flags: Mapping[str, Any]) -> dict[str, str]:
    """The choices that stand among the flags by their own name."""
    made: dict[str, str] = {}
    for name, field in model.model_fields.items():
        choices = [flag for flag in own_flags(field) if flags.get(flag)]
        if len(choices) > 1:
            raise InvalidInput(f"--{choices[0]} and --{choices[1]} exclude each other; take one.")
        if choices:
            made[name] = choices[0]
    return made


def from_flags(flags: Mapping[str, Any], *models: type[BaseModel]) -> tuple[Any, ...]:
    """One value of each model from the flags alone."""
    given = {name: value for name, value in flags.items() if value is not None}
    return tuple(_made(model, given, given, "the settings") for model in models)


def _made(
    model: type[BaseModel], values: Mapping[str, Any], given: Mapping[str, Any], where: str
) -> BaseModel:
    own = {name: value for name, value in values.items() if name in model.model_fields}
    try:
        return model(**own)
    except ValidationError as error:
        name, fault = told(error)
        source = "the flag" if name in given else f"the setting in {where}"
        raise InvalidInput(f"{name} ({source}) {fault}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read {path} ({error.strerror}); check its name.") from None
    except RecursionError:
        raise InvalidInput(f"{path} is nested too deeply; take out the nested lists.") from None
    except ValueError as error:  # of TOML, of bytes that are no text, of endless digits
        raise InvalidInput(f"{path} is not valid TOML ({error}); mend that line.") from None
