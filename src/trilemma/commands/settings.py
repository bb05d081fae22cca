"""The settings of a command: from trilemma.toml and from flags, which win."""

from __future__ import annotations

import inspect
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, Field, ValidationError

from trilemma.errors import InvalidInput, UnknownName
from trilemma.tuning.request import Request, Settings, require_one_budget, told

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Scenario

__all__ = [
    "DEFAULT_FILE", "Effort", "Federated", "Running", "Searched", "SettingsArgument",
    "TrustOption", "command_line", "from_flags", "read_settings", "with_flags",
]  # fmt: skip

DEFAULT_FILE = Path("trilemma.toml")
SettingsArgument = Annotated[
    Path | None, typer.Argument(help="A file of settings [trilemma.toml, if it exists].")
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Import the modules that the file names, which runs their code."),
]


class Federated(Settings):
    """Which federation: a scenario, and what goes to the function that makes it."""

    scenario: str = Field(
        default="digits", description="A ready-made scenario, or module:function."
    )
    data: str | None = Field(default=None, description="Folder of the image files.")
    clients: int | None = Field(default=None, description="K, the number of clients.")
    cohort: int | None = Field(default=None, description="Clients of a round [all].")
    batch: int | None = Field(default=None, description="S, records of one update.")
    alpha: float | None = Field(
        default=None, description="Split by a Dirichlet law with this alpha; default even."
    )
    device: str | None = Field(default=None, description="cpu or cuda.")

    def options(self) -> dict[str, Any]:
        """What goes to the function that makes the scenario."""
        given = self.model_dump(exclude={"scenario"}, exclude_none=True)
        return {"folder" if name == "data" else name: value for name, value in given.items()}

    def source(self) -> Callable[[], Scenario]:
        """What makes the scenario, in each worker anew."""
        from trilemma.scenarios import load_scenario  # imports torch, which takes seconds

        return partial(load_scenario, self.scenario, **self.options())


class Effort(Settings):
    """How hard an attack tries where nothing is tuned."""

    restarts: int = Field(default=3, description="An attack keeps the best of so many starts.")
    seed: int = Field(default=0, description="Same seed, same numbers.")


class Searched(Settings):
    """How a front is searched."""

    evaluations: int = Field(
        default=32, description="Points to measure in all; a larger number goes on later."
    )
    units: int = Field(default=48, description="Games to play at each point.")
    sampler: Literal["grid", "motpe", "nsga2"] = Field(
        default="grid", description="What picks the next point."
    )


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
    def crew(self) -> dict[str, Any]:
        """Where the work is done."""
        return {"workers": self.workers, "ray": self.ray}


def with_flags(
    *models: type[BaseModel], leave_out: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command one flag for each field of the models and of `Running`, with its help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [
            each
            for each in inspect.signature(command, eval_str=True).parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
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
        command.__annotations__ = {each.name: each.annotation for each in (*own, *made)}
        return command

    return decorate


def _own_flags(field: Any) -> dict[str, str]:
    """Choices of a field that are flags of their own, such as --quick, and their help."""
    return (field.json_schema_extra or {}).get("flags", {})  # type: ignore[no-any-return]


def _flags(name: str, field: Any) -> Iterator[tuple[str, Any]]:
    for choice, described in _own_flags(field).items():
        yield choice, Annotated[bool | None, typer.Option(f"--{choice}", help=described)]
    if not _own_flags(field):
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
    parts = [each for each in _parts(annotation) if each is not type(None)]
    if "text" in _marks(annotation) or any(get_origin(each) is tuple for each in parts):
        return str | None
    return parts[0] | None


def _marks(annotation: Any) -> tuple[Any, ...]:
    """What annotates a type, or one of its alternatives."""
    own = getattr(annotation, "__metadata__", ())
    return (*own, *(mark for each in get_args(annotation) for mark in _marks(each)))


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without their validators."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Literal, tuple) or not get_args(annotation):
        return (annotation,)
    return tuple(part for each in get_args(annotation) for part in _parts(each))


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
        choices = [each for each in _own_flags(field) if flags.get(each)]
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


def command_line(command: str, *values: BaseModel) -> str:
    """The command that gives these values again; those that are the defaults are left out.

    >>> command_line("tune", Federated(clients=5))
    'trilemma tune --clients 5'
    """
    words = ["trilemma", command]
    for each in values:
        fields = type(each).model_fields
        own = {name: getattr(each, name) for name in fields if _own_flags(fields[name])}
        usual = type(each)(**own)  # a preset has defaults of its own
        for name, field in fields.items():
            value, flag = getattr(each, name), name.replace("_", "-")
            if name in own:
                words += [f"--{value}"] * (value != field.default)
            elif value == getattr(usual, name):
                continue
            else:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{flag}", text]
    return shlex.join(words)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read {path} ({error.strerror}); check its name.") from None
    except RecursionError:
        raise InvalidInput(f"{path} is nested too deeply; take out the nested lists.") from None
    except ValueError as error:  # of TOML, of bytes that are no text, of endless digits
        raise InvalidInput(f"{path} is not valid TOML ({error}); mend that line.") from None
