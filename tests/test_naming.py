"""One door for module:object: found, called by its path, refused in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trilemma.errors import InvalidInput, Untrusted
from trilemma.naming import load_object, only_named


def test_an_object_and_a_part_of_it() -> None:
    assert load_object("path", "pathlib:Path") is Path
    assert load_object("method", "pathlib:Path.cwd")() == Path.cwd()


def test_a_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text("answer = 42")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert load_object("answer", "mine_alone:answer") == 42
    assert sys.path == before


def test_what_a_file_names_is_not_imported_unless_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_a_file.py").write_text("answer = 42")
    monkeypatch.chdir(tmp_path)
    with only_named("math:floor", trust=False):
        assert load_object("function", "math:floor")(2.5) == 2
        with pytest.raises(Untrusted, match=r"'of_a_file:answer' is named .* add --trust"):
            load_object("attack", "of_a_file:answer")
    assert "of_a_file" not in sys.modules
    with only_named(trust=True):
        assert load_object("attack", "of_a_file:answer") == 42


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:x", "'no_such_module' cannot be imported .ModuleNotFoundError"),
        ("math:nothing", "math has no object 'nothing'"),
        (
            "json:nope",
            r"json has no object 'nope'; name a function or object of .*py'\.$",
        ),
        ("math:", "math has no object ''"),
        ("math:floor.x.y", "has no object 'floor.x.y'"),
    ],
)
def test_what_is_not_there_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error:
        load_object("attack", name)
    assert str(error.value).startswith(f"attack {name!r}")


@pytest.mark.parametrize(
    "name",
    [
        *("math:nothing", "math:nothing.__class__", "math:", "math:floor.", "math:\udcff"),
        *("no_such_module:x", ":x", "..:x", "a b:c", "\x1b[31m:x", "x" * 9000, "math\0:floor"),
    ],
)
def test_whatever_is_named_is_told_in_one_line(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^thing .*") as error:
        load_object("thing", name)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000
