"""What every secret shares: it hides from repr, and refuses to be pickled or copied."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from trilemma.entropy import System
from trilemma.errors import InvalidInput, SecretExposure

__all__ = ["Sealed", "require_system"]


class Sealed:
    """Base of objects that hold a secret: repr shows the type alone, pickle and copy raise.

    >>> import copy
    >>> Sealed()
    <Sealed: hidden>
    >>> copy.copy(Sealed())
    Traceback (most recent call last):
        ...
    trilemma.errors.SecretExposure: Sealed holds a secret and refuses to be pickled or copied; \
export its bytes explicitly where they must travel.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: hidden>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise SecretExposure(
            f"{type(self).__name__} holds a secret and refuses to be pickled or copied; "
            "export its bytes explicitly where they must travel."
        )

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(2)


def require_system(entropy: object) -> System:
    """The entropy itself if it is the system's CSPRNG, else an error: a seed must never be a key.

    >>> require_system(7)
    Traceback (most recent call last):
        ...
    trilemma.errors.InvalidInput: secrets need System() entropy, got int; \
Seeded is for measurement.
    """
    if not isinstance(entropy, System):
        raise InvalidInput(
            f"secrets need System() entropy, got {type(entropy).__name__}; "
            "Seeded is for measurement."
        )
    return entropy
