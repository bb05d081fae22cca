"""One asking of a site for an update: what it was shown, and what its script made of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import torch

from trilemma.deployment.nodes.app_steps import Step, require_training, watched_steps
from trilemma.deployment.nodes.node_training import LocalResult, only_made
from trilemma.deployment.nodes.terms import Terms
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.sessions import protected
from trilemma.updates import Layout

__all__ = ["AskedUpdate", "asked_now"]

_LOG: Final = logging.getLogger("trilemma.nvflare")
_NOW: Final[list[AskedUpdate]] = []  # at most one: a process works for one site, task by task


@dataclass(eq=False)
class AskedUpdate:
    """The model that a site was shown, by name, and the terms of the update that it sends.

    NVFlare runs a training script in a thread of the site's own process; what `local_update`
    makes there, and the steps that the script's optimisers take, are noted here.
    """

    terms: Terms
    model: Mapping[str, torch.Tensor]
    made: list[LocalResult] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    _watching: ExitStack = field(default_factory=ExitStack)

    def open(self) -> None:
        """From now on this is what the site's script works on."""
        for before in _NOW:
            before.close()
        _NOW[:] = [self]
        if self.terms.deployment is not None and not self.terms.by_record:
            self.steps = self._watching.enter_context(watched_steps())

    def close(self) -> None:
        """The script has answered, or never will."""
        self._watching.close()
        if [self] == _NOW:
            _NOW.clear()

    def protected(self, differences: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What leaves the site in place of these differences of weights, by name.

        Zeros are protected in place of differences that the script did not make as the terms say.
        """
        layout = Layout(
            tuple(self.model), tuple(tuple(array.shape) for array in self.model.values())
        )
        try:
            update = self._update(layout, differences)
            if update.dtype != torch.float64:
                update = update.to(torch.float32)  # noise needs more digits than halves have
            if not torch.isfinite(update).all():
                raise InvalidInput("the update holds NaN or infinity; lower the learning rate.")
        except Exception as error:  # of any kind: it may depend on a record
            _LOG.error("the site sends zeros, as what its script made is of no use: %s", error)
            update = torch.zeros(layout.size)
        entropy = System()
        round = RoundInfo("nvflare", 0, (0,), 1, entropy.bits(63))
        sent = protected(self.terms.protection, update, 0, round, entropy).values
        return layout.unflatten(-self.terms.learning_rate * sent)

    def _update(self, layout: Layout, differences: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The update [m] in the terms' units."""
        if self.terms.by_record or self.made:
            after = {name: array for made in self.made for name, array in made.after.items()}
            for name, before in self.model.items():
                change = after[name].cpu() - before if name in after else torch.zeros_like(before)
                if not torch.equal(differences[name], change):
                    raise InvalidInput(
                        f"difference {name!r} is not the one that local_update made; send what it "
                        "returns as it is."
                    )
            return only_made(self.made, layout, self.model, {**self.model, **after})
        if self.terms.deployment is not None:
            require_training(self.steps, self.terms.deployment.local_training)
        return layout.flatten(differences) / -self.terms.learning_rate


def asked_now() -> AskedUpdate | None:
    """What this process is asked for, where a site's filters let it through."""
    return next(iter(_NOW), None)
