"""Runs to be packed, and packs of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.reporting import examples

from trilemma.accounting.noise_calibration import epsilon, success_bound, true_positive_rate
from trilemma.accounting.sampled_training import Training
from trilemma.crypto.signatures import new_signing_key
from trilemma.evidence_pack.pack import Evidence, write_pack
from trilemma.evidence_pack.statement import Statement
from trilemma.evidence_pack.stating import state
from trilemma.tuning.results.certificate import Certificate
from trilemma.tuning.results.verdict import Verdict

DAY = date(2028, 2, 29)
NO_PDF = "no printer in this test"


def proof(**changes: Any) -> Certificate:
    """Full batches over 150 rounds at a noise multiplier of 13.5, as its own fields say."""
    training = Training(150, 1.0, 13.5)
    made = examples.certificate(
        noise_multiplier=13.5,
        sampling_rate=1.0,
        participation="known",
        success={size: success_bound(training, size) for size in (2, 38, 100)},
        epsilon=epsilon(training, 1e-5),
        true_positive_rate=true_positive_rate(training),
        remainder=1e-9,
    )
    return replace(made, **changes)


def proved(**changes: Any) -> Verdict:
    """A verdict whose choice is proved."""
    found = examples.verdict()
    chosen = found.choice
    assert chosen is not None
    sure = replace(chosen, basis="certified", certificate=proof(), tests=(), success=None)
    made = replace(
        found, basis="certified", candidates=(sure, *found.candidates[1:]), headline="Proved."
    )
    return replace(made, **changes)


def stated(verdict: Verdict) -> Statement:
    return state(verdict, b"the file", DAY, None)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with pictures of records, a key and a journal, and no Chromium at hand."""
    monkeypatch.setattr("trilemma.evidence_pack.pack.print_page", lambda page: (None, NO_PDF))
    folder = tmp_path / "run"
    folder.mkdir()
    examples.verdict().save(folder / "verdict.json")
    examples.gallery().save(folder / "gallery.json")
    (folder / "run.key").write_bytes(b"the key of the run: 32 bytes....")
    (folder / "journal.sqlite").write_bytes(b"the journal of the run")
    return folder


@pytest.fixture
def signer(tmp_path: Path) -> Path:
    new_signing_key(tmp_path / "signer.pem", tmp_path / "signer.pub")
    return tmp_path / "signer.pem"


def packed(run: Path, out: str, sign: Path | None = None, name: str = "") -> Evidence:
    return write_pack(run, run.parent / out, sign=sign, name=name, today=DAY)
