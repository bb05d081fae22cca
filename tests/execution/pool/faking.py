"""A Ray in this process: calls run where they are made, and all that is sent is kept as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

__all__ = ["FakeRay"]


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class ActorDiedError(RayError):
    actor_init_failed = False


class _Ref:
    def __init__(self, run: Callable[[], Any], ready: bool = True) -> None:
        self.run, self.ready = run, ready


class FakeRay:
    """`places` workers can start; `trouble` by name of a call is raised as often as it holds."""

    cloudpickle = pickle
    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, *, places: int = 99, trouble: Mapping[str, list[Exception]] | None = None):
        self.places, self.trouble = places, dict(trouble or {})
        self.sent: list[bytes] = []
        self.names: list[str] = []
        self.put_count = self.killed = 0
        self.needs: dict[str, Any] = {}
        self.connected = False
        self.address = ""

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, address: str, **_: Any) -> None:
        self.connected, self.address = True, address

    def shutdown(self) -> None:
        self.connected = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def put(self, value: Any) -> _Ref:
        self.put_count += 1
        self.sent.append(pickle.dumps(value))
        return _Ref(lambda: value)

    def get(self, ref: _Ref) -> Any:
        return ref.run()

    def wait(
        self, refs: list[_Ref], timeout: float | None = None
    ) -> tuple[list[_Ref], list[_Ref]]:
        ready = [ref for ref in refs if ref.ready]
        return ready[:1], []

    def kill(self, actor: Any) -> None:
        self.killed += 1

    def remote(self, **needs: Any) -> Callable[[type], Any]:
        self.needs = needs
        return lambda made: _Named(self, partial(self._actor, made))

    def _actor(self, made: type, name: str, *given: Any) -> Any:
        self.places -= 1
        ready = self.places >= 0
        own = made(*(item.run() if isinstance(item, _Ref) else item for item in given))
        return SimpleNamespace(
            do=_Named(self, partial(self._call, own.do, ready)),
            versions=_Named(self, partial(self._call, own.versions, ready)),
        )

    def _call(self, method: Callable[..., Any], ready: bool, name: str, *given: Any) -> _Ref:
        self.sent.append(pickle.dumps(given))

        def run() -> Any:
            waiting = self.trouble.get(name.partition(" ")[0], [])
            if waiting:
                raise waiting.pop()
            return method(*given)

        return _Ref(run, ready)


class _Named:
    def __init__(self, ray: FakeRay, act: Callable[..., Any], name: str = "") -> None:
        self.ray, self.act, self.name = ray, act, name

    def options(self, name: str) -> _Named:
        return _Named(self.ray, self.act, name)

    def remote(self, *given: Any) -> Any:
        self.ray.names.append(self.name)
        return self.act(self.name, *given)
