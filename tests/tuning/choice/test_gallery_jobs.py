"""Pictures: the target records beside what real attacks make of them, and who sees none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.own_scenario import shown, small
from tests.tuning.priced_candidates import candidate
from tests.tuning.simulating import runner, simulate

from trilemma.execution.journal import Run
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, Job
from trilemma.tuning.choice.gallery_jobs import gallery as drawn
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.gallery import GALLERY, RECORDS, Gallery
from trilemma.tuning.tuning_run import tune

ATTACKS = ("gaussian-posterior", "analytic")


QUIET = "randomization:variance=1e-12"


LOUD = "randomization:variance=1e3"


def made(protection: str | None, done: list[Job] | None = None, **settings: Any) -> Gallery:
    plan = Plan.of(shown(), Request(attacks=ATTACKS, steps=2, claim="one-round", **settings))
    chosen = replace(candidate("randomization", 0.1), protection=protection)
    found = runner(JobRunner(shown, None, 1, 2, 0), done)(drawn(plan, chosen))
    assert isinstance(found, Gallery)
    return found


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    return made(LOUD)


def levels(gallery: Gallery) -> list[list[int]]:
    records = torch.cat([client.inputs for client in shown().records]).double()
    low, high = gallery.low, gallery.high
    whole: list[list[int]] = torch.round(255 * (records - low) / (high - low)).int().tolist()
    return whole


def test_what_is_shown_are_records_and_picks_of_the_clients(gallery: Gallery) -> None:
    assert gallery.shape == (1, 1, 6)
    assert set(gallery.target) == {"unprotected", "verdict"}
    pictures = levels(gallery)
    for label, target in gallery.target.items():
        assert len(target) == RECORDS
        assert all(list(item) in pictures for item in target)
        for column in gallery.columns:
            if column.label == label:
                assert all(list(item) in pictures for item in column.guessed)
                right = [a == b for a, b in zip(column.guessed, target, strict=True)]
                assert list(column.correct) == right


def test_every_attack_has_a_column_with_and_without_protection(gallery: Gallery) -> None:
    found = [(column.label, column.attack, column.protection) for column in gallery.columns]
    assert found == [
        *(("unprotected", attack, "none") for attack in ATTACKS),
        *(("verdict", attack, "randomization:variance=1000.0") for attack in ATTACKS),
    ]


def test_without_protection_a_record_is_seen_and_under_noise_it_is_not(gallery: Gallery) -> None:
    bare, noisy = (
        next(
            column
            for column in gallery.columns
            if (column.label, column.attack) == (label, "analytic")
        )
        for label in ("unprotected", "verdict")
    )
    gaps = [
        np.abs(np.subtract(one, other)).max()
        for one, other in zip(bare.made, gallery.target["unprotected"], strict=True)
    ]
    assert max(gaps) <= 1, "exact but for the rounding of levels"
    assert all(bare.correct)
    assert sum(noisy.correct) <= 2


def test_the_games_of_the_two_labels_are_not_the_same() -> None:
    done: list[Job] = []
    made(QUIET, done)
    streams = [item.stream for item in done if isinstance(item, AttackJob)]
    assert streams == ["control"] * 2 + ["gallery, verdict"] * 2
    assert all(item.pictures == RECORDS for item in done if isinstance(item, AttackJob))


@pytest.mark.parametrize(
    ("protection", "adversary", "labels"),
    [
        ("none", "server", {"unprotected"}),
        (None, "server", {"unprotected"}),
        ("paillier:mode=blind", "server", {"unprotected"}),
        ("secret-sharing", "server", {"unprotected", "verdict"}),
    ],
)
def test_a_verdict_is_shown_where_there_is_something_to_see(
    protection: str | None, adversary: str, labels: set[str]
) -> None:
    found = made(protection, adversary=adversary)
    assert {column.label for column in found.columns} == labels


def test_no_picture_is_made_where_records_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch)
    find = partial(tune, attacks=ATTACKS, seeds=2, strengths=0, families=("secret-sharing",))
    (tmp_path / GALLERY).write_text("{}")
    with Run.open(tmp_path, {}) as run:
        find(small, run=run)
    assert not (tmp_path / GALLERY).exists(), "an old one goes too"
    task = AttackJob("x", "none", ("analytic",), Request().adversary, 1, 0, 4, pictures=4)
    made = [decode(JobRunner(source, None, 1, 2, 0)()(task)) for source in (small, shown)]
    assert [item.pictures is not None for item in made] == [False, True]
