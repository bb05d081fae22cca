"""Calling a function that makes a scenario, so that what is wrong with it can be mended."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

from torch import nn

from trilemma.errors import InvalidInput, TrilemmaError, place_of
from trilemma.game.differentiability import checked_before
from trilemma.game.scenario import Scenario, made_on

__all__ = ["CHANGEABLE", "called", "changed", "made_with", "meant"]

CHANGEABLE: Final = ("batch", "cohort", "device")  # of a scenario that is made
_FLAGS: Final = {"folder": "folder (--data)"}  # options whose flag has another name


def called(make: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Scenario:
    """The scenario that `make` returns for these options; `name` is how errors call it."""
    _check_options(make, name, options)
    try:
        made = make(**options)
    except TrilemmaError:
        raise
    except Exception as error:
        place = place_of(error)
        raise InvalidInput(
            f"scenario {name!r} with options {dict(options) or 'none'} failed "
            f"({type(error).__name__}: {error}{f'; {place}' if place else ''})."
        ) from error
    if not isinstance(made, Scenario):
        raise InvalidInput(
            f"scenario {name!r} must return a trilemma Scenario, got {type(made).__name__}; "
            f"{meant(made)}."
        )
    return made


def made_with(make: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Scenario:
    """The same; a batch, cohort or device that `make` does not take changes what it made."""
    taken = _parameters(make) or {}
    later = {option for option in CHANGEABLE if option in options and option not in taken}
    changes = {name: options[name] for name in later if options[name] is not None}
    with made_on(changes["device"]) if "device" in changes else nullcontext():
        made = called(make, name, {n: value for n, value in options.items() if n not in later})
    return changed(made, changes)


def changed(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with another batch, cohort or device."""
    whole = dict(changes)
    batch = whole.pop("batch", None)
    if batch is not None and batch != scenario.local_training.batch:
        scenario = scenario.with_local_training(batch=batch)
    whole = {name: value for name, value in whole.items() if value != getattr(scenario, name)}
    if "device" in whole:
        return replace(scenario, **whole)
    with checked_before():  # model and loss stay what they are, and where
        return replace(scenario, **whole) if whole else scenario


def _parameters(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Those of a function; None of one that is not written in Python."""
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError):
        return None


def _check_options(make: Callable[..., Any], name: str, options: Mapping[str, Any]) -> None:
    parameters = _parameters(make)
    if parameters is None:
        return
    known = parameters.values()
    if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in known):
        return
    taken = [item.name for item in known if item.kind is not inspect.Parameter.POSITIONAL_ONLY]
    wrong = [_FLAGS.get(option, option) for option in options if option not in taken]
    if wrong:
        takes = f"it takes {', '.join(taken)}" if taken else "it takes no options"
        raise InvalidInput(
            f"scenario {name!r} does not take {', '.join(wrong)}: {takes}; leave that out, or let "
            f"the function take it."
        )
    missing = [
        item.name
        for item in known
        if item.default is inspect.Parameter.empty
        and item.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        and item.name not in options
    ]
    if missing:
        raise InvalidInput(
            f"scenario {name!r} needs {', '.join(missing)}, which nothing gives; let the function "
            f"have a default for each."
        )


def meant(made: Any) -> str:
    """What to write in the place of something that is no scenario."""
    if made is None:
        return "let the function end with `return Scenario(...)`"
    if made is Scenario:
        return "call it: `return Scenario(model, loss, clients, test)`"
    if isinstance(made, nn.Module):
        return "wrap the model: Scenario(model, loss, clients, test)"
    if isinstance(made, tuple) and len(made) >= 4:
        return "call Scenario with these values: `return Scenario(model, loss, clients, test)`"
    return "make a Scenario(model, loss, clients, test)"
