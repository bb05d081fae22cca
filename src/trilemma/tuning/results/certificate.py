"""What is proved against anyone: noise, clip and sampling, and the bounds that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilemma.accounting.sampled_training import Participation, Training
from trilemma.tuning.results.documents import Share

__all__ = ["Certificate"]


@dataclass(frozen=True)
class Certificate:
    """A proof for every attacker, whatever it knows, over a whole training.

    `noise_multiplier` z is the noise over the influence of one record (of one client, at that
    level), at the fewest honest survivors; `variance` is what each client adds to its update,
    whose records are clipped to `record_clip` each, or which is clipped to it as a whole where
    `clips_updates`. `success` bounds how often anyone guesses the right one of N, by N, and
    `known` the same if the attacker knows which rounds held the record; `leakage` is the largest
    over all N, or that of the `candidates` claimed, reached at `worst_candidates`. `remainder`,
    for what fixed point leaves unproved, is in all of them. `epsilon` at `delta`, and the
    true-positive rate of membership inference at 1 % false positives, say the same in the words of
    differential privacy. `sampling_rate` is the probability that a round holds a record; `person`
    records may belong to one person.

    Clip and server step (the first one, if it falls to zero with `server_decay`) are those of a
    rule, `tuning.recipes`. The step `unprotected_lr` of the unprotected training was chosen on
    `chosen_on` public records; utility is reported on `reported_on` records that took no part.
    """

    level: Literal["record", "client"]
    noise_multiplier: float
    variance: float
    record_clip: float
    server_lr: float
    rounds: int
    sampling_rate: Share
    participation: Participation
    survivors: int
    helpers: int
    person: int
    success: dict[int, Share]
    leakage: Share
    worst_candidates: int
    epsilon: float
    delta: Share
    true_positive_rate: Share
    clips_updates: bool = False
    known: dict[int, Share] | None = None
    candidates: int | None = None
    remainder: float = 0.0
    server_decay: bool = False
    unprotected_lr: float | None = None
    unprotected_decay: bool = False
    chosen_on: int = 0
    reported_on: int = 0

    def training(
        self, rounds: int | None = None, participation: Participation | None = None
    ) -> Training:
        """The training that the bounds are of, or one of other rounds or participation.

        A clipped update moves by as much whether one or all of a person's records are in it:
        their number is in the sampling rate.
        """
        return Training(
            self.rounds if rounds is None else rounds,
            self.sampling_rate,
            self.noise_multiplier,
            self.participation if participation is None else participation,
            1 if self.clips_updates else self.person,
        )
