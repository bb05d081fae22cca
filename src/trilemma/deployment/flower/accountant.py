"""The ledger as Flower's privacy accountant: exact for Gaussian noise, and kept in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from flwr.serverapp import GaussianPrivacyEvent, PrivacyConfig, PrivacySpent, SamplingMethod
from scipy.optimize import brentq

from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.nodes.round_events import Event, epsilon_of
from trilemma.errors import InvalidInput
from trilemma.quantities import counted, positive

__all__ = ["LedgerAccountant"]

_KIND: Final = "trilemma ledger 1"
_LEAST_LOG_DELTA: Final = -690.0  # δ of 1e-300
_HIGHEST_LOG_DELTA: Final = -1e-9


class LedgerAccountant:
    """Releases under Gaussian noise, added up exactly: μ² = Σ 1/z², for Flower's `accountant=`.

    It implements `flwr.serverapp.PrivacyAccountant` at the level of clients, without
    amplification, which is what Flower's strategies with fixed clipping ask for; they end the
    training before `max_epsilon` would be exceeded. With a `ledger` file releases count over all
    runs under the name `data`.
    """

    def __init__(
        self, config: PrivacyConfig, *, ledger: Path | str | None = None, data: str = "server"
    ) -> None:
        if config.sampling_method is not SamplingMethod.NO_AMPLIFICATION:
            raise InvalidInput(
                f"sampling_method is {config.sampling_method.value!r}, and this accountant counts "
                "every client in every release; use no-amplification."
            )
        self._config, self._data = config, data
        self._ledger = None if ledger is None else Ledger(Path(ledger))
        self._own: list[Event] = []

    @property
    def config(self) -> PrivacyConfig:
        """The configuration that it was made with."""
        return self._config

    @property
    def num_releases(self) -> int:
        """How many releases were composed, over all runs of the ledger."""
        return sum(event.rounds for event in self._events)

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Counts releases; durable when this returns, where there is a ledger."""
        own = self._event(event, count)
        if self._ledger is None:
            self._own.append(own)
        else:
            self._ledger.record(self._data, own)

    def get_epsilon(self, delta: float) -> float:
        """ε of all releases at this δ."""
        return epsilon_of(self._events, delta)

    def get_delta(self, epsilon: float) -> float:
        """δ of all releases at this ε, from above to nine digits."""
        if epsilon < 0:
            raise InvalidInput(f"epsilon must be at least 0, got {epsilon}.")
        events = self._events

        def beyond(log_delta: float) -> float:
            return epsilon_of(events, math.exp(log_delta)) - epsilon

        if not events or beyond(_LEAST_LOG_DELTA) <= 0:
            return 0.0
        if beyond(_HIGHEST_LOG_DELTA) > 0:
            return 1.0
        return math.exp(brentq(beyond, _LEAST_LOG_DELTA, _HIGHEST_LOG_DELTA, xtol=1e-12) + 1e-9)

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """ε of all releases, at the target δ unless another is given."""
        at = self._config.target_delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(at), at, self.num_releases, "exact Gaussian ledger")

    def would_exceed(
        self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1
    ) -> bool:
        """Whether so many releases more would bring ε over the limit."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise InvalidInput(
                "there is no limit to exceed; state max_epsilon, here or in PrivacyConfig."
            )
        after = [*self._events, self._event(event, count)]
        return epsilon_of(after, self._config.target_delta) > positive("max_epsilon", limit)

    def state_dict(self) -> dict[str, object]:
        """All releases as plain values."""
        return {"kind": _KIND, "events": [asdict(event) for event in self._events]}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Goes on from what `state_dict` gave; a ledger in a file goes on by itself."""
        events = _events_of(state)
        if self._ledger is None:
            self._own = events
        elif _square(events) > _square(self._events) * (1 + 1e-9):
            raise InvalidInput(
                "the state holds more releases than the ledger; put a copy of the ledger back."
            )

    @property
    def _events(self) -> tuple[Event, ...]:
        return tuple(self._own) if self._ledger is None else self._ledger.events(self._data)

    def _event(self, event: GaussianPrivacyEvent, count: int) -> Event:
        if event.population_size != self._config.population_size:
            raise InvalidInput(
                f"population_size is {event.population_size}, and {self._config.population_size} "
                "in the accountant's configuration; state the same."
            )
        return Event(event.noise_multiplier, counted("count", count))


def _events_of(state: Mapping[str, Any]) -> list[Event]:
    try:
        if state["kind"] != _KIND:
            raise ValueError("another kind")
        return [Event(**event) for event in state["events"]]
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("this is no state of a ledger's accountant; load its own.") from None


def _square(events: list[Event] | tuple[Event, ...]) -> float:
    """μ²; a use without noise has no limit."""
    if any(not event.noise_multiplier for event in events):
        return math.inf
    return sum(event.rounds / event.noise_multiplier**2 for event in events)
