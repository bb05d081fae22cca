"""Galleries: the tagged records beside what real attacks make of them, and who sees none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.commands.own_scenario import shown, small
from tests.tuning.choosing.test_pricing import candidate
from tests.tuning.simulating import asking, simulate

from trilemma.errors import InvalidInput
from trilemma.estimation.tasks import AttackTask, Bench, Task
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.gallery import GALLERY, RECORDS, Gallery, gallery_procedure
from trilemma.tuning.tune import tune
from trilemma.work.journal import Run

ATTACKS = ("gaussian-posterior", "analytic")
QUIET = "randomization:variance=1e-12"
LOUD = "randomization:variance=1e3"


def made(protection: str | None, done: list[Task] | None = None, **settings: Any) -> Gallery:
    plan = Plan.of(shown(), Request(attacks=ATTACKS, steps=2, claim="one-round", **settings))
    chosen = replace(candidate("randomization", 0.1), protection=protection)
    found = gallery_procedure(plan, chosen)(asking(Bench(shown, None, 1, 2, 0), done))
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
    assert set(gallery.tagged) == {"unprotected", "verdict"}
    pictures = levels(gallery)
    for label, tagged in gallery.tagged.items():
        assert len(tagged) == RECORDS
        assert all(list(each) in pictures for each in tagged)
        for column in gallery.columns:
            if column.label == label:
                assert all(list(each) in pictures for each in column.picked)
                right = [a == b for a, b in zip(column.picked, tagged, strict=True)]
                assert list(column.correct) == right


def test_every_attack_has_a_column_with_and_without_protection(gallery: Gallery) -> None:
    found = [(each.label, each.attack, each.protection) for each in gallery.columns]
    assert found == [
        *(("unprotected", attack, "none") for attack in ATTACKS),
        *(("verdict", attack, "randomization:variance=1000.0") for attack in ATTACKS),
    ]


def test_without_protection_a_record_is_seen_and_under_noise_it_is_not(gallery: Gallery) -> None:
    bare, noisy = (
        next(each for each in gallery.columns if (each.label, each.attack) == (label, "analytic"))
        for label in ("unprotected", "verdict")
    )
    gaps = [
        max(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in zip(bare.made, gallery.tagged["unprotected"], strict=True)
    ]
    assert max(gaps) <= 1, "exact but for the rounding of levels"
    assert all(bare.correct)
    assert sum(noisy.correct) <= 2


def test_the_games_of_the_two_labels_are_not_the_same() -> None:
    done: list[Task] = []
    made(QUIET, done)
    streams = [each.stream for each in done if isinstance(each, AttackTask)]
    assert streams == ["gallery, unprotected", "gallery, verdict"]
    assert all(each.pictures == RECORDS for each in done if isinstance(each, AttackTask))


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
    assert {each.label for each in found.columns} == labels


def test_a_gallery_survives_its_file(gallery: Gallery, tmp_path: Path) -> None:
    gallery.save(tmp_path / GALLERY)
    assert Gallery.load(tmp_path / GALLERY) == gallery


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "[]", "no gallery of version 2"),
        (lambda text: text.replace('"gallery_version": 2', '"gallery_version": 1'), "version 2"),
        (lambda text: text.replace('"low"', '"floor"'), "is wrong"),
        (lambda text: text.replace('"correct": [', '"correct": [true,', 1), "one picture a rec"),
        (lambda text: text.replace('"made": [', '"made": [[999],', 1), "is wrong"),
        (lambda text: text.replace('"shape": [', '"shape": [2,', 1), "is wrong"),
    ],
)
def test_a_spoilt_gallery_gets_one_sentence(
    gallery: Gallery, tmp_path: Path, spoil: Any, word: str
) -> None:
    path = tmp_path / GALLERY
    gallery.save(path)
    text = path.read_text()
    assert spoil(text) != text
    path.write_text(spoil(text))
    with pytest.raises(InvalidInput, match=word) as error:
        Gallery.load(path)
    assert "\n" not in str(error.value)
    assert "trilemma tune" in str(error.value)


def test_pictures_of_another_size_are_refused(gallery: Gallery) -> None:
    with pytest.raises(InvalidInput, match="needs 12 levels"):
        replace(gallery, shape=(1, 2, 6))


def test_no_picture_is_made_where_records_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(monkeypatch)
    find = partial(tune, attacks=ATTACKS, seeds=2, strengths=0, families=("secret-sharing",))
    (tmp_path / GALLERY).write_text("{}")
    with Run.open(tmp_path, {}) as run:
        find(small, run=run)
    assert not (tmp_path / GALLERY).exists(), "an old one goes too"
    task = AttackTask("x", "none", ("analytic",), Request().adversary, 1, 0, 4, pictures=4)
    assert [b"pictures" in Bench(source, None, 1, 2, 0)()(task) for source in (small, shown)] == [
        False,
        True,
    ]
