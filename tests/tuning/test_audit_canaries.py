"""A verdict's deployment audited: from Python and from the command line."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.cli.own_scenario import small
from tests.cli.running import here
from tests.tuning.simulating import simulate

import trilemma
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import SparseUpdate
from trilemma.protection.transforms.randomization import Randomization
from trilemma.reporting.words.canary_text import summary
from trilemma.tuning.audit_canaries import audit_verdict
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune

SUM = "randomization+secret-sharing"


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        return tune(small(), families=(SUM,), seeds=2, strengths=0)


def test_a_deployment_as_proved_conforms_with_keys_shares_and_masks(verdict: Verdict) -> None:
    audit = audit_verdict(small, verdict, canaries=60, seed=1)
    assert verdict.choice is not None
    assert verdict.choice.certificate is not None
    proof = verdict.choice.certificate
    assert audit.mu_proved == pytest.approx(math.sqrt(proof.rounds) / proof.noise_multiplier)
    assert audit.mu_present <= audit.mu_proved
    assert audit.conforms, audit
    assert not audit.suspects
    assert [finding.test for finding in audit.findings] == [
        "noise", "fresh noise", "own noise", "one record", "denominator",
    ]  # fmt: skip
    assert summary(audit).startswith("Nothing contradicts")


def test_a_deployment_that_forgot_its_noise_raises_an_alarm_that_says_so(verdict: Verdict) -> None:
    assert verdict.protection is not None
    bare = replace(verdict, protection=Protection((), verdict.protection.transport))
    audit = trilemma.audit_canaries(bare, small(), canaries=60, seed=1, quiet=True)
    assert audit.alarm
    assert any("variance" in suspect for suspect in audit.suspects)
    assert summary(audit).startswith("ALARM")


@dataclass(frozen=True)
class Shared(Randomization):
    """Noise that all clients draw from one seed: any of them can take all of it out of a sum."""

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        return super().apply(update, client=0, round=round, entropy=Seeded(round.number + 1))


def test_noise_that_clients_share_is_found_though_its_sum_is_as_large(verdict: Verdict) -> None:
    assert verdict.protection is not None
    (noise,) = verdict.protection.transforms
    assert isinstance(noise, Randomization)
    shared = Shared(noise.variance / verdict.deployment.cohort)
    liar = replace(verdict, protection=Protection((shared,), verdict.protection.transport))
    audit = audit_verdict(small, liar, canaries=60, seed=1, messages=False)
    assert not audit.alarm, "canaries in the sums do not see it"
    assert "own noise" in {finding.test for finding in audit.findings if not finding.holds}


def test_the_command_prints_and_exits_by_what_it_saw(
    verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    verdict.save(tmp_path / "verdict.json")
    own = ("--scenario", "tests.cli.own_scenario:small", "--canaries", "60", "--seed", "1")
    code, out, err = here(monkeypatch, capsys, "canaries", str(tmp_path), *own, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["conforms"] is True
    assert said["canaries"] == 60


def test_what_proves_nothing_cannot_be_audited(verdict: Verdict) -> None:
    with pytest.raises(InvalidInput, match="proves nothing"):
        audit_verdict(small, replace(verdict, chosen=None), canaries=60)
