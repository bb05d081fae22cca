"""A node's own policy: what it refuses, and that it says so once only to its owner."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from tests.deployment.verdicts import SINGLE, SUMMED, deployment, verdict_file

from trilemma.deployment.nodes.round_events import Event
from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import claimed_terms, from_verdict
from trilemma.deployment.policy import Policy, digest_of, weaknesses
from trilemma.errors import InvalidInput, NotConfigured, PolicyRefused
from trilemma.protection.specs import parse_protection

NOISE = "randomization:variance=1e-4,clip=1.0"
HIDDEN = "secret-sharing:max_weight=100"


def policy(folder: Path, text: str) -> Policy:
    path = folder / "trilemma-policy.toml"
    path.write_text(text)
    return Policy.load(path)


@pytest.mark.parametrize(
    ("own", "least", "weaker"),
    [
        (NOISE, NOISE, ""),
        (f"{NOISE}+{HIDDEN}", NOISE, ""),
        ("randomization:variance=4e-4,clip=2.0", NOISE, ""),
        (NOISE, f"{NOISE}+{HIDDEN}", "reads single messages"),
        (HIDDEN, "paillier:mode=blind", "reads the sum"),
        ("randomization:variance=1e-4,clip=2.0", NOISE, "0.005 times the clip"),
        ("randomization:variance=1e-2", NOISE, "not clipped"),
        ("compression:keep=0.1", NOISE, "no noise comes first"),
        (SINGLE, SINGLE, ""),
        (f"compression:keep=0.01+{SINGLE}", SINGLE, "no noise comes first"),
        (f"compression:keep=0.1+{HIDDEN}", f"compression:keep=0.2+{HIDDEN}", ""),
        ("compression:keep=0.3", "compression:keep=0.2", "share of 0.3"),
        ("none", "compression:keep=0.2", "no compression"),
        ("top-k:keep=0.1", "compression:keep=0.2", "no compression"),
    ],
)
def test_a_protection_is_as_strong_as_another_or_says_where_not(
    own: str, least: str, weaker: str
) -> None:
    said = " ".join(weaknesses(parse_protection(own), parse_protection(least)))
    assert (weaker in said) if weaker else not said


def test_terms_of_its_own_verdict_pass(tmp_path: Path) -> None:
    path = verdict_file(tmp_path / "verdict.json", SUMMED)
    digest = digest_of(path.read_bytes())
    asked = policy(
        tmp_path,
        f'protection = "{SUMMED}"\nverdict = "{digest}"\nmetrics = []\nsmallest-cohort = 4\n'
        "threshold = 3\nrounds = 3\n",
    )
    asked.require(from_verdict(path, deployment()))
    asked.require_cohort(4, 3)
    assert asked.refusal([Event(0.1, rounds=3)]) is None


@pytest.mark.parametrize(
    ("text", "terms", "reason"),
    [
        (f'protection = "{NOISE}"', Terms.of("none"), "no noise comes first"),
        ("metrics = []", Terms.of("none", metrics=("loss",)), "'loss' would leave"),
        ('metrics = ["loss"]', Terms.of("none", queries=("stats",)), "'stats' would leave"),
        (f'verdict = "sha256:{"0" * 64}"', Terms.of("none"), "come from no verdict"),
    ],
)
def test_weaker_terms_are_refused(tmp_path: Path, text: str, terms: Terms, reason: str) -> None:
    with pytest.raises(PolicyRefused, match=reason):
        policy(tmp_path, text).require(terms)


def test_another_verdict_is_refused_and_so_are_terms_that_only_name_it(tmp_path: Path) -> None:
    path = verdict_file(tmp_path / "verdict.json", SUMMED)
    asked = policy(tmp_path, f'verdict = "{digest_of(path.read_bytes())}"')
    weak = Terms.deployed("none", deployment(), source=str(path))
    with pytest.raises(PolicyRefused, match="not those of"):
        asked.require(weak)
    longer = verdict_file(tmp_path / "other.json", SUMMED, rounds=9)
    with pytest.raises(PolicyRefused, match="is not one that it names"):
        asked.require(claimed_terms(longer))


def test_a_cohort_and_a_sum_can_be_too_small() -> None:
    asked = Policy(smallest_cohort=4, threshold=3)
    with pytest.raises(PolicyRefused, match="4 clients at least, and 3 are asked"):
        asked.require_cohort(3, 3)
    with pytest.raises(PolicyRefused, match="a sum of 3 clients at least, and 1"):
        asked.require_cohort(4, 1)
    with pytest.raises(PolicyRefused, match="does not tell a node how many"):
        asked.require_cohort(None, 3)


def test_rounds_count_over_all_runs() -> None:
    asked = Policy(rounds=3)
    assert asked.refusal([Event(0.1, rounds=2), Event(0.2)]) is None
    assert "took part in 3 rounds" in str(asked.refusal([Event(0.1, rounds=2), Event(0.2, 2)]))


def test_a_signed_verdict_passes_and_an_altered_one_does_not(tmp_path: Path) -> None:
    """Signed by openssl, as the docs say."""
    path = verdict_file(tmp_path / "verdict.json", SUMMED)
    key, public = tmp_path / "signer.pem", tmp_path / "signer.pub"
    for command in (
        ["genpkey", "-algorithm", "ed25519", "-out", key],
        ["pkey", "-in", key, "-pubout", "-out", public],
    ):
        subprocess.run(["openssl", *map(str, command)], check=True)
    asked = policy(tmp_path, 'signer = "signer.pub"')
    with pytest.raises(PolicyRefused, match=r"verdict\.signature\.json cannot be read"):
        asked.require(claimed_terms(path))
    sign = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", str(key), "-in", str(path)]
    signed = subprocess.run(sign, check=True, capture_output=True).stdout
    signature = tmp_path / "verdict.signature.json"
    signature.write_text(json.dumps({"ed25519": b64encode(signed).decode()}))
    asked.require(claimed_terms(path))
    verdict_file(path, "none")
    with pytest.raises(PolicyRefused, match="holds no signature"):
        asked.require(claimed_terms(path))
    signature.write_text('{"ed25519": 3}')
    with pytest.raises(PolicyRefused, match="holds no signature"):
        asked.require(claimed_terms(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("smallest-cohrot = 3", "did you mean 'smallest-cohort'"),
        ("threshold = 0", "threshold must be at least 1"),
        ("rounds = 1.5", "rounds"),
        ('model-check = "ignore"', "'warn' or 'refuse'"),
        ('verdict = "sha256:12"', "64 hexadecimal digits"),
        ('metrics = "loss"', "list of names"),
        (f'protection = "{SINGLE}"', "noise without a clip"),
        ("= 3", "not TOML"),
    ],
)
def test_a_policy_that_makes_no_sense_lets_nothing_out(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(NotConfigured, match=said):
        policy(tmp_path, text)


def test_a_policy_that_is_not_there_lets_nothing_out(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="cannot be read"):
        Policy.load(tmp_path / "none.toml")


def test_a_policy_is_written_as_it_is_read(tmp_path: Path) -> None:
    asked = Policy(
        4, 3, parse_protection(f"{NOISE}+{HIDDEN}"), 150, (), "warn", (), tmp_path / "k"
    )
    assert policy(tmp_path, asked.as_toml()) == asked


def test_an_app_that_looks_at_no_model_is_refused_where_the_policy_asks_for_a_look() -> None:
    Policy().require_check(given=False)
    Policy(model_check="warn").require_check(given=True)
    with pytest.raises(PolicyRefused, match="nothing here looks at models"):
        Policy(model_check="warn").require_check(given=False)


def test_a_mistake_in_a_value_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="smallest-cohort must be at least 1, got 0"):
        Policy(smallest_cohort=0)
