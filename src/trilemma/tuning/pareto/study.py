"""Which family to measure next, and where: a grid or an optuna sampler, over one shared study.

The space is flat, a family and a place in [0, 1]: with a parameter of its own for each
family, NSGA-II is no better than random search. The study is an optuna storage, so that
machines that name the same one share the work: each takes the next trial, none waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self, get_args

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState
from pydantic import TypeAdapter
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, ProgrammingError, SQLAlchemyError

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.tuning.pareto.front_geometry import grid_place
from trilemma.tuning.results.pareto_front import SamplerName
from trilemma.tuning.results.points import Point

__all__ = ["SAMPLERS", "Choice", "Study", "grid_point"]

SAMPLERS: Final[tuple[SamplerName, ...]] = get_args(SamplerName)
_OBJECTIVES: Final = 3
_POPULATION: Final = 10  # evaluations cost minutes; optuna's 50 would all be random
_RESULT: Final = "evaluated"
_OWNER: Final = "owner"


@dataclass(frozen=True)
class Choice:
    """A trial of the study: measure this family at this place of its domain."""

    trial: Trial
    family: str
    place: float

    @property
    def name(self) -> str:
        """What a log calls it."""
        return f"trial {self.trial.number}, {self.family} at {self.place:.3g},"


def grid_point(tuned: Sequence[str], untuned: Sequence[str], number: int) -> tuple[str, float]:
    """The number-th point of the grid: families without a strength once, then by turns.

    >>> [grid_point(["noise", "masks"], ["sum"], number) for number in range(4)]
    [('sum', 0.0), ('noise', 0.0), ('masks', 0.0), ('noise', 1.0)]
    """
    if number < len(untuned) or not tuned:
        return untuned[number % len(untuned)], 0.0
    turn, place = divmod(number - len(untuned), len(tuned))
    return tuned[place], grid_place(turn)


class _Grid(BaseSampler):
    """The trial's number is the place in the grid, whichever machine has it."""

    def __init__(self, tuned: Sequence[str], untuned: Sequence[str]) -> None:
        self._tuned, self._untuned = tuned, untuned

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        family, place = grid_point(self._tuned, self._untuned, trial.number)
        return family if param_name == "family" else place


class Study:
    """An optuna study that survives kill -9: trials that its owner left unfinished are taken up.

    `owner` tells the run folders that share a storage apart; None where the storage belongs to
    one folder alone. Then the same seed gives the same trials; with several owners, who see each
    other's results in an order that a clock decides, only a grid does.
    """

    def __init__(
        self,
        storage: str,
        name: str,
        *,
        sampler: SamplerName,
        tuned: Sequence[str],
        untuned: Sequence[str],
        seed: int,
        owner: str | None = None,
    ) -> None:
        self._kind, self._owner = sampler, owner
        self._tuned, self._untuned = tuple(tuned), tuple(untuned)
        self._seeds = Seeded(seed).child("study", owner or "")
        self._url = storage
        logging.getLogger("optuna").setLevel(logging.WARNING)  # it logs every trial
        with self._one_sentence():
            self._storage, self._study = self._opened(name)

    def _opened(self, name: str) -> tuple[optuna.storages.RDBStorage, optuna.Study]:
        """Open the study; machines that start at once race for its tables."""
        for wait in (0.3, 1.0, None):
            try:
                # It fills a template: a brace that is part of the name must be doubled.
                url = self._url.replace("{", "{{").replace("}", "}}")
                storage = optuna.storages.RDBStorage(url)
                return storage, optuna.create_study(
                    study_name=name,
                    storage=storage,
                    directions=["minimize"] * _OBJECTIVES,
                    sampler=self._sampler(0),
                    load_if_exists=True,
                )
            except (IntegrityError, ProgrammingError, optuna.exceptions.StorageInternalError):
                if wait is None:
                    raise
                time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def points(self) -> list[Point]:
        """What was handed to `finish` by all machines, in the order of the trials."""
        with self._one_sentence():
            found = [trial.user_attrs[_RESULT] for trial in self._trials() if _finished(trial)]
        return [_document().validate_python(item) for item in found]

    def choices(self, wanted: int, *, at_once: int) -> list[Choice]:
        """Up to `at_once` trials to be measured now, so that in the end `wanted` are finished.

        First the unfinished ones of a killed run. Samplers other than the grid learn from the
        last result before they choose again, so that they get one at a time.
        """
        if not self._tuned:
            wanted = min(wanted, len(self._untuned))
        with self._one_sentence():
            trials = self._trials()
            missing = wanted - sum(map(_finished, trials))
            left = [trial for trial in trials if self._is_left(trial)]
            count = min(missing, at_once if self._kind == "grid" else 1)
            chosen = [self._again(trial) for trial in left[: max(0, count)]]
            while len(chosen) < count:
                chosen.append(self._next())
            return chosen

    def finish(self, choice: Choice, point: Point) -> None:
        """Keep a point; one without objectives, as its training diverged, has failed."""
        plain, objectives = _document().dump_python(point, mode="json"), point.objectives
        with self._one_sentence():
            choice.trial.set_user_attr(_RESULT, plain)
            if objectives is None:
                self._study.tell(choice.trial, state=TrialState.FAIL)
            else:
                self._study.tell(choice.trial, list(objectives))

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _is_left(self, trial: FrozenTrial) -> bool:
        return trial.state is TrialState.RUNNING and (
            self._owner is None or trial.user_attrs.get(_OWNER) == self._owner
        )

    def _again(self, trial: FrozenTrial) -> Choice:
        self._study.sampler = self._sampler(trial.number)
        return self._suggested(Trial(self._study, trial._trial_id))

    def _next(self) -> Choice:
        # Seeded anew for each trial: a resumed run goes on as if it had never stopped.
        self._study.sampler = self._sampler(len(self._trials()))
        trial = self._study.ask()
        if self._owner is not None:
            trial.set_user_attr(_OWNER, self._owner)
        return self._suggested(trial)

    def _suggested(self, trial: Trial) -> Choice:
        names = (*self._tuned, *self._untuned)
        family = trial.suggest_categorical("family", names)
        return Choice(trial, family, trial.suggest_float("place", 0.0, 1.0))

    def _sampler(self, number: int) -> BaseSampler:
        if self._kind == "grid":
            return _Grid(self._tuned, self._untuned)
        seed = self._seeds.integer(number) % 2**32
        if self._kind == "motpe":
            return TPESampler(seed=seed)
        return NSGAIISampler(seed=seed, population_size=_POPULATION)

    @contextmanager
    def _one_sentence(self) -> Iterator[None]:
        """A storage that fails is the user's to mend; its password is not repeated."""
        try:
            yield
        except ArgumentError:
            raise InvalidInput(
                "the storage is no database URL; write one such as sqlite:///study.sqlite or "
                "postgresql+psycopg://user@host/database."
            ) from None
        except ImportError:
            raise InvalidInput(
                f"the storage {self._shown()} needs a database driver that is not installed; "
                f"install it (for postgresql+psycopg: trilemma[postgresql])."
            ) from None
        except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            # optuna wraps what the database said; its first line is the reason.
            reason = str(error.__cause__ or error).splitlines()[0]
            raise InvalidInput(
                f"cannot use the storage {self._shown()} ({reason}); what was finished is kept: "
                f"mend it, and run the same command again."
            ) from None

    def _shown(self) -> str:
        return make_url(self._url).render_as_string(hide_password=True)


def _finished(trial: FrozenTrial) -> bool:
    return trial.state.is_finished() and _RESULT in trial.user_attrs


@cache
def _document() -> TypeAdapter[Point]:
    return TypeAdapter(Point)
