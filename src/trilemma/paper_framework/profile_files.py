"""The file that carries constants and profiles from `trilemma estimate` to `trilemma solve`."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.execution.run_files import write_bytes
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.surrogate_bounds import Constants

__all__ = ["ProfileFile"]

_VERSION: Final = 1
_BROKEN: Final = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError,
    zipfile.BadZipFile, zlib.error, TrilemmaError,
)  # fmt: skip
_REMEDY: Final = "write one with trilemma estimate --profile FILE"


@dataclass(frozen=True, eq=False)
class ProfileFile:
    """C₁, C₂ and each client's m, δ and σᵢ, as a NumPy archive (.npz).

    Entries: version, c1, c2, parameters, delta [K], sigma [K, m], floored [K].
    """

    constants: Constants
    profiles: Sequence[Profile]

    def save(self, path: Path) -> None:
        """Write the archive; the file is complete, or not there."""
        arrays: dict[str, Any] = {
            "version": _VERSION,
            "c1": self.constants.c1,
            "c2": self.constants.c2,
            "parameters": self.profiles[0].parameters,
            "delta": [profile.delta or np.nan for profile in self.profiles],
            "sigma": np.stack([np.asarray(profile.sigma) for profile in self.profiles]),
            "floored": [profile.floored for profile in self.profiles],
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_bytes(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The content of an archive; one sentence where there is none."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                found = dict(archive)
            if int(found["version"]) != _VERSION:
                raise InvalidInput(f"its version is {int(found['version'])}")
            profiles = tuple(
                Profile(int(found["parameters"]), None if np.isnan(delta) else float(delta), *rest)
                for delta, *rest in zip(
                    found["delta"], found["sigma"], found["floored"].tolist(), strict=True
                )
            )
            if not profiles:
                raise InvalidInput("it holds no client")
            return cls(Constants(float(found["c1"]), float(found["c2"])), profiles)
        except FileNotFoundError:
            raise InvalidInput(f"the profile {path} does not exist; {_REMEDY}.") from None
        except _BROKEN as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InvalidInput(f"{path} is no profile ({reason:.200}); {_REMEDY}.") from None
