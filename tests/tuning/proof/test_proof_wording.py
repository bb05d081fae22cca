"""The headline and the limits of a proof, against its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trilemma.observations import Adversary
from trilemma.tuning.proof.proof_wording import proved_headline, proved_limits
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
    worst_candidates=5,
    epsilon=7.9,
    delta=1e-5,
    true_positive_rate=0.116,
)
ASKED = Request(knows="anyone", budget=0.3)


def test_the_prior_the_rounds_the_helpers_and_the_rate_are_named() -> None:
    assert proved_headline(PROOF, ASKED, "secret-sharing") == (
        "Someone who holds 100 equally likely records, sees all 150 rounds, does not know which "
        "of them used the record and is helped by one client singles the right one out in at most "
        "12 of 100 attempts; guessing gives 1. Proved."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"candidates": 5000}, "5,000 equally likely records"),
        ({"candidates": 5000}, "at most 2 of 100 attempts; guessing gives 0.02. Proved."),
        ({"participation": "known"}, "sees all 150 rounds and is helped by one client singles"),
        ({"success": {100: 0.0778}}, "in at most 8 of 100 attempts"),
        ({"success": {100: 0.0231}}, "in at most 2.4 of 100 attempts"),
        ({"helpers": 2}, "helped by 2 clients"),
        ({"helpers": 0}, "150 rounds and does not know"),
        ({"level": "client"}, "100 equally likely clients"),
        ({"rounds": 1, "participation": "known"}, "sees the round and is helped"),
    ],
)
def test_the_headline_follows_the_claim(changes: dict[str, object], words: str) -> None:
    changed = replace(PROOF, **changes)  # type: ignore[arg-type]
    assert words in proved_headline(changed, ASKED, "secret-sharing")


def test_a_curious_client_sees_means_and_the_server_is_not_covered() -> None:
    asked = Request(knows="anyone", budget=0.3, adversary="client")
    said = proved_headline(replace(PROOF, participation="known"), asked, "plain")
    assert said.startswith(
        "A client that holds 100 equally likely records and sees only the means"
    )
    limits = proved_limits(PROOF, "plain", Adversary.CLIENT)
    assert limits[0].startswith("The server. It sees more")


def test_nothing_proved_says_so() -> None:
    assert proved_headline(None, ASKED, "plain").endswith(": none.")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "helped by more than one client, or departs from secret sharing"),
        ({}, "noise of 6 honest clients"),
        ({"helpers": 0}, "helped by any client, or departs"),
        ({}, "A person with more than one record."),
        ({"person": 3}, "A person with more than 3 records."),
        ({"level": "client"}, "A person who is behind several clients."),
        ({"rounds": 1}, "Several rounds"),
        ({}, "Momentum"),
        ({}, "repeated with the same batch"),
        ({}, "accuracies, games, ranks. They used the clients' records."),
    ],
)
def test_the_limits_follow_the_proof(changes: dict[str, object], words: str) -> None:
    made = replace(PROOF, **changes)  # type: ignore[arg-type]
    assert words in " ".join(proved_limits(made, "secret-sharing"))


def test_single_messages_need_no_sum() -> None:
    text = " ".join(proved_limits(replace(PROOF, survivors=1), "randomization"))
    assert "sums" not in text.replace("with the sums what it likes", "")
