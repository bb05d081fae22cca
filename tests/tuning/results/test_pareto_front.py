"""pareto.json: read as it was written; its schema is that of its file."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.reporting import examples

from trilemma.errors import InvalidInput
from trilemma.tuning.results.pareto_front import Front


def test_a_front_is_read_as_it_was_written(tmp_path: Path) -> None:
    front = examples.front()
    front.save(tmp_path / "pareto.json")
    assert Front.load(tmp_path / "pareto.json") == front
    jsonschema.validate(json.loads((tmp_path / "pareto.json").read_text()), Front.schema())


def test_a_name_that_is_none_of_its_own_is_refused(tmp_path: Path) -> None:
    document = {**examples.front().as_json(), "colour": "red"}
    (tmp_path / "pareto.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="colour is wrong"):
        Front.load(tmp_path / "pareto.json")
