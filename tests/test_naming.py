"""module:object: the very object, or one sentence."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trilemma.errors import InvalidInput
from trilemma.naming import load_object


def test_the_object_is_found_also_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "somebodys_module.py").write_text("class Inner:\n    value = 7\n")
    assert load_object("thing", "somebodys_module:Inner.value") == 7
    assert load_object("thing", "math:floor") is math.floor


@pytest.mark.parametrize(
    "name",
    [
        *("math:nothing", "math:nothing.__class__", "math:", "math:floor.", "math:\udcff"),
        *("no_such_module:x", ":x", "..:x", "a b:c", "\x1b[31m:x", "x" * 9000, "math\0:floor"),
    ],
)
def test_what_is_not_there_is_one_sentence(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^thing .*") as error:
        load_object("thing", name)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000
