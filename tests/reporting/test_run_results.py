"""What a run left to be shown: read, or refused in one sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.reporting import examples

from trilemma.errors import InvalidInput
from trilemma.reporting.page.page import write_report
from trilemma.reporting.run_results import read_run


def show(path: Path) -> Path:
    """The report of what lies in a folder or a file."""
    return write_report(*read_run(path))


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("name", ["verdict.json", "pareto.json"])
def test_a_truncated_file_is_one_sentence(name: str, kept: float, tmp_path: Path) -> None:
    made = examples.verdict() if name == "verdict.json" else examples.front()
    made.save(tmp_path / name)
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text[: int(kept * len(text))])
    with pytest.raises(InvalidInput, match="not a whole JSON file") as caught:
        show(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("leakage",), "much"),
        (("curves", 3, "leakage", "high"), None),
        (("curves", 3, "protection"), "invisibility:cloak=1"),
        (("protection",), "nonsense"),
        (("request", "budget"), 7),
        (("limits",), 3),
        (("chosen",), "nobody"),
        (("curves", 3, "leakage", "value"), math.nan),
        (("candidates", 0, "leakage", "low"), math.inf),
        (("claim", "candidates"), 1),
        (("points", 2, "units"), "few"),
        (("knee",), 99),
    ],
)
def test_a_hand_edited_file_is_one_sentence(
    place: tuple[str | int, ...], value: object, tmp_path: Path
) -> None:
    front = place[0] in ("points", "knee")
    made = examples.front() if front else examples.verdict()
    document = json.loads(json.dumps(made.as_json()))
    there = document
    for step in place[:-1]:
        there = there[step]
    there[place[-1]] = value
    (tmp_path / "edited.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput) as caught:
        show(tmp_path / "edited.json")
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_result_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds no verdict\.json, pareto\.json or paper\.json"):
        show(tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        show(tmp_path / "nowhere.json")


def test_a_broken_gallery_is_one_sentence(tmp_path: Path) -> None:
    examples.verdict().save(tmp_path / "verdict.json")
    gallery = examples.gallery().as_json()
    gallery["target"]["verdict"][0][0] = 256
    for broken in ("{", json.dumps(gallery)):
        (tmp_path / "gallery.json").write_text(broken)
        with pytest.raises(InvalidInput, match="gallery"):
            show(tmp_path)
