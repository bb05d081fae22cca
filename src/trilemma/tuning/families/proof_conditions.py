"""Which families can be proved, and what a federation must be like for a proof to hold.

Checked here is what a scenario shows: its model and its loss. A client's optimiser is not among
it, as `LocalTraining` has none with a memory: its steps start at the server's weights and are
plain SGD. What only the federation can keep stands in `KEPT`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from trilemma.errors import InvalidInput
from trilemma.learning.modules import scores
from trilemma.protection.transforms.randomization import Randomization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining
    from trilemma.protection.protection import Protection

__all__ = ["CERTIFIED", "KEPT", "certified_families", "check_scenario", "unproved"]

CERTIFIED: Final = ("randomization", "randomization+secret-sharing", "randomization+paillier")
"""The families that can be proved: Gaussian noise on clipped updates, nothing chosen by value."""
_NO_MEMORY: Final = (
    "Clients that remember past batches, or send anything else about them. Momentum, error "
    "feedback and statistics of batches do; proved is plain SGD from the server's weights. The "
    "server may do with the sums what it likes."
)
_NO_RETRY: Final = (
    "A round that is repeated with the same batch. One that is run again draws batches and noise "
    "anew, and counts as a further round."
)
KEPT: Final = (_NO_MEMORY, _NO_RETRY)
"""What no scenario shows and every node has to keep."""


def certified_families(names: Sequence[str] | None, clients: int) -> tuple[str, ...]:
    """The families to be proved: those named, by default all that so many clients can run."""
    if names is None:
        return CERTIFIED if clients > 1 else CERTIFIED[:1]
    for name in names:
        if name not in CERTIFIED:
            raise InvalidInput(
                f"nothing can be proved of {name}: {_why_not(name)}; choose from "
                f"{', '.join(CERTIFIED)}, or tune for another attacker than anyone."
            )
    return tuple(names)


def _why_not(name: str) -> str:
    if "randomization" not in name:
        return "without Gaussian noise one record changes what is seen for certain"
    return (
        "which coordinates are sent is no part of the proof, and what a client keeps back for "
        "later (error feedback) would be a memory of records"
    )


def check_scenario(scenario: Scenario, *, by_record: bool) -> None:
    """Refuses a model that remembers records and, where updates are made of them, coupled losses.

    Where the whole update of a client is clipped and hidden, its loss may be any.
    """
    if name := _remembers(scenario):
        raise InvalidInput(
            f"the model's {name} changes whenever it sees records (as the statistics of "
            "BatchNorm do in train mode), so that it remembers them, which no proof covers; call "
            "eval() on that layer, or use GroupNorm."
        )
    if by_record and scenario.couples_records and not scenario.weighs_records:
        raise InvalidInput(
            "the loss of a batch is not the mean of its records' losses, so that clipping single "
            "records does not bound what one of them changes; use a loss that is such a mean."
        )


def unproved(local_training: LocalTraining, protection: Protection) -> tuple[str, ...]:
    """Why nothing is proved of clients that train in their own way under a protection; () else.

    >>> from trilemma.learning import LocalTraining
    >>> from trilemma.protection.specs import parse_protection
    >>> own = LocalTraining(batch=4, sampling="poisson")
    >>> unproved(own, parse_protection("randomization:variance=0.1"))
    ('no record is clipped',)
    """
    noise = protection.transforms
    alone = len(noise) == 1 and isinstance(noise[0], Randomization) and noise[0].clip is None
    found = {
        "a client takes several steps a round": local_training.algorithm == "fedavg",
        "no record is clipped": local_training.record_clip is None,
        "batches have a fixed size": local_training.sampling == "fixed",
        "Gaussian noise is not all that protects": not alone,
    }
    return tuple(reason for reason, holds in found.items() if holds)


def _remembers(scenario: Scenario) -> str:
    """What is another after other records or more of them: a buffer, or answers to the same; "".

    A count of calls tells nothing of them.
    """
    rows = scenario.records[0].inputs[torch.arange(5) % len(scenario.records[0])]
    rows = rows.to(scenario.device)
    used = [scenario.as_given() for _ in range(2)]
    with torch.no_grad():
        for model, part in zip(used, (rows[:2], rows[2:]), strict=True):
            model(part)
        one, other = (dict(model.named_buffers()) for model in used)
        for name, value in one.items():
            if not torch.equal(value, other[name]):
                return f"buffer {name!r}"
        answers = []
        for model in used:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # dropout, alike in both
                answers.append(scores(model(rows[:2])))
    return "" if torch.equal(*answers) else "answer, by something that is no buffer,"
