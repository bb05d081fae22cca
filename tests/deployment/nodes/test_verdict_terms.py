from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from trilemma.deployment.nodes.round_events import Event
from trilemma.deployment.nodes.verdict_terms import from_verdict
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

MEASURED = Deployment(
    LocalTraining("fedavg", lr=0.1, steps=5, batch=8),
    parameters=65,
    clients=4,
    cohort=4,
    threshold=3,
    weighting="records",
    rounds=150,
    server=ServerTraining(0.5, decay=True),
    total_records=500,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "verdict.json")


def write(path: Path, **changes: Any) -> Path:
    verdict = {
        "schema_version": 4,
        "protection": "secret-sharing:max_weight=500",
        "deployment": asdict(MEASURED),
    }
    path.write_text(json.dumps(verdict | changes))
    return path


def test_the_terms_are_what_was_measured(path: Path) -> None:
    terms = from_verdict(path, MEASURED)
    assert terms.protection == Protection((), SecretSharing(max_weight=500))
    assert terms.deployment == MEASURED
    assert (terms.threshold, terms.min_cohort, terms.weighting) == (3, 4, "records")
    assert terms.learning_rate == 1.0, "what was measured is the change of the weights"


def test_a_federation_states_how_its_server_trains_and_how_many_records_there_are(
    path: Path,
) -> None:
    for own in (replace(MEASURED, total_records=420), replace(MEASURED, server=None)):
        assert from_verdict(path, own).deployment == MEASURED
    for own, sentence in {
        replace(MEASURED, server=ServerTraining(1.0, decay=True)): r"server\.step was 0\.5 when",
        replace(MEASURED, server=ServerTraining(0.5)): r"server\.decay was True when .* is False",
        replace(MEASURED, total_records=501): "total_records was 500 when .* is 501 here",
        replace(MEASURED, total_records=None): "total_records was 500 when .* is None here",
    }.items():
        with pytest.raises(InvalidInput, match=sentence):
            from_verdict(path, own)


def test_a_verdict_that_does_not_say_how_the_server_trains_is_refused(path: Path) -> None:
    write(path, deployment={**asdict(MEASURED), "server": None})
    with pytest.raises(InvalidInput, match="does not say how the server trained"):
        from_verdict(path, replace(MEASURED, server=None))


def test_a_proof_for_one_round_is_deployed_for_one(path: Path) -> None:
    once = replace(MEASURED, rounds=1)
    write(path, deployment=asdict(once))
    with pytest.raises(InvalidInput, match="rounds was 1 when measured and is 150 here"):
        from_verdict(path, MEASURED)
    assert from_verdict(path, once).refusal([Event(0.0), Event(0.0)]) is not None


def test_a_federation_that_differs_is_refused_field_by_field(path: Path) -> None:
    other = replace(
        MEASURED,
        weighting="equal",
        rounds=200,
        local_training=replace(MEASURED.local_training, lr=0.2),
    )
    with pytest.raises(InvalidInput) as refused:
        from_verdict(path, other)
    text = str(refused.value)
    for part in (
        "local_training.lr was 0.1 when measured and is 0.2 here",
        "weighting was 'records' when measured and is 'equal' here",
        "rounds was 150 when measured and is 200 here",
    ):
        assert part in text


@pytest.mark.parametrize("version", [1, 3, 5, "4", None])
def test_another_version_is_refused(path: Path, version: object) -> None:
    write(path, schema_version=version)
    with pytest.raises(InvalidInput, match=f"a verdict of version {version!r}, which does not"):
        from_verdict(path, MEASURED)


def test_a_verdict_without_a_protection_is_refused(path: Path) -> None:
    write(path, protection=None)
    with pytest.raises(InvalidInput, match="chose no protection"):
        from_verdict(path, MEASURED)


@pytest.mark.parametrize(
    "deployment",
    [None, {}, {**asdict(MEASURED), "rounds": 0}, {**asdict(MEASURED), "cohort": "x"}],
)
def test_a_deployment_that_makes_no_sense_is_refused(path: Path, deployment: object) -> None:
    write(path, deployment=deployment)
    with pytest.raises(InvalidInput, match="is not a verdict"):
        from_verdict(path, MEASURED)


@pytest.mark.parametrize("text", ["[]", "{", '"verdict"', "[" * 100_000])
def test_what_is_no_verdict_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(InvalidInput, match="is not a verdict"):
        from_verdict(path, MEASURED)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        from_verdict(tmp_path / "none.json", MEASURED)


@pytest.mark.parametrize("protection", [7, [], {}, True, ["none"]])
def test_a_protection_is_a_text(tmp_path: Path, protection: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a verdict: its protection is"):
        from_verdict(write(tmp_path / "verdict.json", protection=protection), MEASURED)


@pytest.mark.parametrize("change", [{"clients": "4"}, {"rounds": 150.5}, {"threshold": True}])
def test_a_text_is_no_number_of_a_deployment(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write(tmp_path / "verdict.json", deployment=asdict(MEASURED) | change)
    with pytest.raises(InvalidInput, match="is not a verdict"):
        from_verdict(path, MEASURED)


@pytest.mark.parametrize("basis", ["measured", "certified"])
@pytest.mark.parametrize(
    "beside",
    [{"metrics": ("train_loss",)}, {"evaluate_metrics": ("loss",)}, {"queries": ("labels",)}],
)
def test_nothing_leaves_beside_what_a_verdict_is_about(
    path: Path, basis: str, beside: dict[str, tuple[str, ...]]
) -> None:
    write(path, basis=basis)
    with pytest.raises(InvalidInput, match="evaluate the model on the server"):
        from_verdict(path, MEASURED, **beside)
