"""The headline and the limits of a proof, against its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trilemma.tuning.certificate.wording import proved_headline, proved_limits
from trilemma.tuning.request import Request
from trilemma.tuning.results.certificate import Certificate

PROOF = Certificate(
    level="record",
    noise_multiplier=0.61,
    variance=1e-3,
    record_clip=0.5,
    server_lr=8.0,
    rounds=150,
    sampling_rate=4 / 150,
    participation="secret",
    survivors=6,
    helpers=1,
    person=1,
    success={2: 0.8, 100: 0.1163, 5000: 0.02},
    leakage=0.2999,
    worst_line_up=5,
    epsilon=7.9,
    delta=1e-5,
    true_positive_rate=0.116,
)
ASKED = Request(knows="anyone", budget=0.3)


def test_all_line_ups_are_claimed_and_a_hundred_is_quoted() -> None:
    assert proved_headline(PROOF, ASKED) == (
        "Nobody, whatever they know, picks the right one of 100 records over 150 rounds, not told "
        "which of them held the record, in more than 12 of 100 cases (a blind guess: 1), and at "
        "no number of records leaks more than 0.3. This is proved."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"line_up": 5000}, "one of 5,000 records"),
        ({"line_up": 5000}, "more than 2 of 100 cases (a blind guess: 0.02). This"),
        ({"participation": "known"}, "150 rounds, told which"),
        ({"rounds": 1, "sampling_rate": 1.0}, "from one round that is known to hold the record"),
    ],
)
def test_the_headline_follows_the_claim(changes: dict[str, object], words: str) -> None:
    assert words in proved_headline(replace(PROOF, **changes), ASKED)  # type: ignore[arg-type]


def test_nothing_proved_says_so() -> None:
    assert proved_headline(None, ASKED).endswith("not proved.")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "does not run secret-sharing as prescribed, or more than 1 clients that help"),
        ({}, "noise of 6 honest clients"),
        ({"helpers": 0}, "prescribed, or clients that help"),
        ({}, "More than one record of one person."),
        ({"person": 3}, "More than 3 records of one person."),
        ({"level": "client"}, "More than one client of one person."),
        ({"rounds": 1}, "Several rounds"),
        ({}, "momentum"),
        ({}, "retry"),
        ({}, "chose clip and server step"),
    ],
)
def test_the_limits_follow_the_proof(changes: dict[str, object], words: str) -> None:
    made = replace(PROOF, **changes)  # type: ignore[arg-type]
    assert words in " ".join(proved_limits(made, "secret-sharing"))


def test_single_messages_need_no_sum() -> None:
    text = " ".join(proved_limits(replace(PROOF, survivors=1), "randomization"))
    assert "sums" not in text.replace("with the sums what it likes", "")
