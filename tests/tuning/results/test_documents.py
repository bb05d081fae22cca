"""Results that anyone may have edited: read as they are, or refused in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reporting import examples

from trilemma.errors import InvalidInput
from trilemma.tuning.results.pareto_front import Front
from trilemma.tuning.results.verdict import Verdict

LOADERS: dict[str, tuple[Callable[[], Any], Callable[[Path], Any]]] = {
    "verdict": (examples.verdict, Verdict.load),
    "front": (examples.front, Front.load),
}


def refused(path: Path, text: str | bytes, load: Callable[[Path], Any]) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInput) as error:
        load(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500 + len(str(path))
    return str(error.value)


@pytest.mark.parametrize("kind", LOADERS)
def test_what_was_written_is_read_again(kind: str, tmp_path: Path) -> None:
    make, load = LOADERS[kind]
    make().save(tmp_path / "a.json")
    assert load(tmp_path / "a.json").as_json() == make().as_json()


@pytest.mark.parametrize("kind", LOADERS)
def test_a_run_folder_stands_for_what_is_in_it(kind: str, tmp_path: Path) -> None:
    make, load = LOADERS[kind]
    with pytest.raises(InvalidInput, match=rf"cannot read the {kind} .*\.json"):
        load(tmp_path)
    make().save(tmp_path / ("verdict.json" if kind == "verdict" else "pareto.json"))
    assert load(tmp_path) == make()


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("value", ["1e999", "-1e999", '"1e999"', '"0.9"', "NaN", "true", "[0.9]"])
def test_a_number_is_a_finite_number(kind: str, value: str, tmp_path: Path) -> None:
    make, load = LOADERS[kind]
    text = json.dumps(make().as_json())
    field = {"verdict": "largest_success_rate", "front": "hypervolume"}[kind]
    spoilt = re.sub(rf'"{field}": [^,]+', f'"{field}": {value}', text, count=1)
    assert spoilt != text
    refused(tmp_path / "a.json", spoilt, load)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, '{"a":' * 100_000, b"\xff\xfe", b"", "1" * 5000),
        json.dumps({"schema_version": "x" * 9999}),
    ],
)
def test_what_is_no_document_is_one_short_sentence(
    kind: str, text: str | bytes, tmp_path: Path
) -> None:
    refused(tmp_path / "a.json", text, LOADERS[kind][1])


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, dict | list):
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(leaf for key, item in items for leaf in leaves(item, (*path, key)))]


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_value_changed_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    make, load = LOADERS[data.draw(st.sampled_from(sorted(LOADERS)))]
    document = make().as_json()
    *place, last = data.draw(st.sampled_from(leaves(document)[1:]))
    inner = document
    for key in place:
        inner = inner[key]
    inner[last] = data.draw(VALUES)
    file = tmp_path_factory.getbasetemp() / "changed.json"
    file.write_text(json.dumps(document))
    try:
        load(file)
    except InvalidInput:
        return


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("largest_success_rate",), 1.5, "share lies in 0"),
        (("candidates", 0, "success", "high"), 1.5, "share lies in 0"),
        (("beliefs", 0, "mean"), -0.1, "share lies in 0"),
        (("candidates", 0, "objective", "low"), 9.0, "outside of its interval"),
        (("candidates", 0, "units"), -1, "is -1, and counts something"),
        (("attacks", 0, "control_recovered"), 25, "25 successes in 24 games"),
        (("federation", "clients"), -10, "is -10, and counts something"),
        (("headline",), "\x1b[31mred", "headline cannot be printed"),
        (("versions", "python"), "a\nb", "versions.python cannot be printed"),
        (("versions",), {"\x1b[31m": "1"}, "versions.a key cannot be printed"),
        (("protection",), ["none"], "a protection is a text"),
    ],
)
def test_values_outside_their_domain_are_refused(
    place: tuple[str | int, ...], value: object, sentence: str, tmp_path: Path
) -> None:
    document: Any = examples.verdict().as_json()
    *path, last = place
    inner = document
    for item in path:
        inner = inner[item]
    inner[last] = value
    assert sentence in refused(tmp_path / "verdict.json", json.dumps(document), Verdict.load)
