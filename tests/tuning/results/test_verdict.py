"""verdict.json: what is written is what is read, and a spoilt file gets one sentence."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.cli.own_scenario import small
from tests.tuning.simulating import simulate

from trilemma.errors import InvalidInput
from trilemma.protection.protection import Protection
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune

ROOT = Path(__file__).parents[3]
Spoil = Any
tuned = partial(tune, attacks=("gaussian-posterior", "analytic"), seeds=2, strengths=2)


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        return tuned(small(), families=("randomization", "compression", "paillier"))


@pytest.fixture(scope="module")
def text(verdict: Verdict, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("verdict") / "verdict.json"
    verdict.save(path)
    return path.read_text()


def test_a_verdict_survives_its_file(verdict: Verdict, text: str, tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(text)
    found = Verdict.load(tmp_path / "verdict.json")
    assert found == verdict
    assert isinstance(found.protection, Protection)
    assert found.choice == verdict.choice
    assert found.request == verdict.request


def test_the_file_keeps_the_schema_and_says_its_version_first(text: str) -> None:
    document = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert next(iter(document)) == "schema_version"
    assert document["schema_version"] == Verdict.schema_version == 4
    jsonschema.validate(document, Verdict.schema())


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    assert published == Verdict.schema(), "write Verdict.schema() to docs/verdict.schema.json"


def longest(value: Any) -> int:
    """Of all lists of numbers in a document, but for the games won after each checkpoint."""
    if isinstance(value, dict):
        return max((longest(item) for name, item in value.items() if name != "after"), default=0)
    if isinstance(value, list):
        numbers = all(isinstance(item, int | float) for item in value)
        return len(value) if numbers else max(map(longest, value), default=0)
    return 0


def test_no_record_is_in_the_verdict(text: str) -> None:
    """A record has 6 numbers, so every list of as many would be one."""
    assert longest(json.loads(text)) < small().input_spec.size


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "[1, 2]", "no verdict of version 4"),
        (lambda text: "[" * 100_000, "nested too deeply"),
        (lambda text: text.replace('"budget": 0.3', '"budget": 1e999'), "too large: 1e999"),
        (lambda text: text.replace('"budget": 0.3', '"budget": NaN'), "NaN is no number"),
        (lambda text: text.replace('"schema_version": 4', '"schema_version": 7'), "version 4"),
        (lambda text: text.replace('"schema_version": 4', '"schema_version": "4"'), "version 4"),
        (
            lambda text: text.replace('"schema_version": 4', '"schema_version": 3'),
            "of version 3, .* run trilemma tune again with --fresh --out ",
        ),
        (lambda text: text.replace('"adversary": "server"', '"adversary": "me"'), "adversary"),
        (lambda text: text.replace('"limits"', '"limit"'), "limit"),
        (lambda text: text.replace('"headline"', '"title"'), "headline"),
        (lambda text: text.replace('"budget": 0.3', '"budget": "1e999"'), "budget"),
        (lambda text: text.replace('"budget": 0.3', '"budget": 7'), "budget"),
        (lambda text: text.replace('"candidates": 21', '"candidates": 1'), "at least 2"),
        (lambda text: text.replace('"randomization:var', '"randomisation:var', 1), "unknown"),
    ],
)
def test_a_truncated_or_foreign_file_gets_one_sentence(
    text: str, tmp_path: Path, spoil: Spoil, word: str
) -> None:
    assert spoil(text) != text
    path = tmp_path / "verdict.json"
    path.write_text(spoil(text))
    with pytest.raises(InvalidInput, match=word) as error:
        Verdict.load(path)
    assert "\n" not in str(error.value)


def test_no_file_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read the verdict"):
        Verdict.load(tmp_path / "none.json")
