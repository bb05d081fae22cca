"""The house in figures: how long its files are, what mirrors them, what its errors say.

lines of src      all lines of the Python files under src/, blank ones and docstrings too.
median, longest   lines of a source file; `__init__` files, which only say what lives there, count
                  in neither.
modules           Python files of a folder, without its `__init__`.
mirrored          share of the source files with logic that have a test file of the same place and
                  name: src/trilemma/a/b.py and tests/a/test_b.py. A file has logic if a function
                  in it, or a method of a class that is no protocol, has a body besides its
                  docstring.
errors            share of the places that raise an error of ours whose message holds a value: an
                  expression in its text, or a whole expression for its text (such as the message
                  of another error).
test files        lines of a test file.

`python tests/test_house.py` prints them.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "trilemma"
TESTS = ROOT / "tests"


@cache
def sources() -> tuple[Path, ...]:
    return tuple(path for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def lengths() -> dict[str, int]:
    return {str(path.relative_to(SOURCE)): lines(path) for path in sources()}


def all_lines() -> int:
    return sum(map(lines, SOURCE.rglob("*.py")))


def modules() -> dict[str, int]:
    folders = {path.parent for path in sources()}
    return {
        str(folder.relative_to(SOURCE)): sum(path.parent == folder for path in sources())
        for folder in sorted(folders)
    }


def has_logic(path: Path) -> bool:
    return any(_acts(node) for node in _functions(tree(path)))


def _functions(node: ast.AST) -> list[ast.FunctionDef]:
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            found.append(child)
        elif not (isinstance(child, ast.ClassDef) and "Protocol" in map(_name, child.bases)):
            found += _functions(child)
    return found


def _acts(function: ast.FunctionDef) -> bool:
    """Whether it has a body besides its docstring and an ellipsis."""
    return not all(isinstance(each, ast.Expr | ast.Pass) for each in function.body)


def _name(node: ast.AST) -> str:
    inner = node.value if isinstance(node, ast.Subscript) else node
    return inner.id if isinstance(inner, ast.Name) else ""


def mirror(path: Path) -> Path:
    inside = path.relative_to(SOURCE)
    return TESTS / inside.parent / f"test_{inside.name}"


def unmirrored() -> tuple[list[str], int]:
    """The files with logic that have no mirror, and how many files have logic."""
    able = [path for path in sources() if has_logic(path)]
    bare = [str(path.relative_to(SOURCE)) for path in able if not mirror(path).exists()]
    return bare, len(able)


@cache
def errors() -> frozenset[str]:
    """Names of our errors: those of errors.py, and their subclasses elsewhere."""
    known = {
        each.name for each in tree(SOURCE / "errors.py").body if isinstance(each, ast.ClassDef)
    }
    for path in sources():
        for each in ast.walk(tree(path)):
            if isinstance(each, ast.ClassDef) and known & {_name(base) for base in each.bases}:
                known.add(each.name)
    return frozenset(known)


def raised() -> tuple[list[str], int]:
    """Places whose error holds no value, and how many places raise an error of ours."""
    silent, places = [], 0
    for path in sources():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Raise):
                continue
            call = node.exc
            if not (isinstance(call, ast.Call) and _name(call.func) in errors()):
                continue
            places += 1
            if not any(map(_holds_value, call.args)):
                silent.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return silent, places


def _holds_value(text: ast.expr) -> bool:
    if isinstance(text, ast.JoinedStr):
        return any(isinstance(each, ast.FormattedValue) for each in text.values)
    if isinstance(text, ast.BinOp):
        return _holds_value(text.left) or _holds_value(text.right)
    return not isinstance(text, ast.Constant)


def test_files_are_short() -> None:
    found = lengths()
    assert median(found.values()) <= 130
    longest = max(found, key=found.__getitem__)
    assert found[longest] <= 350, f"{longest} has {found[longest]} lines"


def test_folders_can_be_seen_at_a_glance() -> None:
    crowded = {folder: count for folder, count in modules().items() if count > 12}
    assert not crowded


def test_tests_are_short() -> None:
    whole = {"test_paper.py"}  # the paper's statements, in their order
    long = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if path.name not in whole and lines(path) > 400
    ]
    assert not long


def test_tests_mirror_the_house() -> None:
    bare, able = unmirrored()
    assert 1 - len(bare) / able >= 0.92, bare


def test_errors_carry_the_offending_value() -> None:
    silent, places = raised()
    assert 1 - len(silent) / places >= 0.87, silent


def test_the_figures_can_tell() -> None:
    """That a function without a body is no logic, and a fixed text holds no value."""
    bare = ast.parse('def f() -> None:\n    """Nothing."""\n    ...\n')
    assert not any(map(_acts, _functions(bare)))
    assert any(map(_acts, _functions(ast.parse("class A:\n    def f(self):\n        return 1\n"))))
    protocol = "class A(Protocol):\n    def f(self):\n        return 1\n"
    assert not _functions(ast.parse(protocol))
    for text, holds in (('"fixed"', False), ('f"got {x}"', True), ("str(error)", True)):
        assert _holds_value(ast.parse(text, mode="eval").body) is holds


def figures() -> str:
    found, (bare, able), (silent, places) = lengths(), unmirrored(), raised()
    longest = max(found, key=found.__getitem__)
    return "\n".join(
        (
            f"lines of src   {all_lines():,}",
            f"median file    {median(found.values()):g}",
            f"longest file   {found[longest]} ({longest})",
            f"largest folder {max(modules().values())}",
            f"mirrored       {1 - len(bare) / able:.1%} of {able}",
            f"errors         {1 - len(silent) / places:.1%} of {places}",
            *(f"  no mirror: {each}" for each in bare),
            *(f"  no value: {each}" for each in silent),
        )
    )


if __name__ == "__main__":
    print(figures())
