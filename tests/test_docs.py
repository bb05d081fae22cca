"""The site: pages made from code are what the code says, and links lead somewhere."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trilemma

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not {"_build", "repository"} & set(path.parts)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """The headings of a page as GitHub and Sphinx name them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
    return {title.strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        if link.startswith(("http", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {link}"


def test_every_page_is_in_the_sites_table_of_contents() -> None:
    trees = [
        (page, line.strip())
        for page in PAGES
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL)
        for line in tree.splitlines()
    ]
    listed = {(page.parent / f"{line}.md").resolve() for page, line in trees}
    inside = {page for page in PAGES if (ROOT / "docs") in page.parents}
    benchmarks = {page for page in inside if page.parent.name == "benchmarks"}  # listed as *
    assert inside - benchmarks - listed == {ROOT / "docs" / "index.md"}


def test_the_settings_page_is_what_the_code_says() -> None:
    script = ROOT / "docs" / "settings.py"
    code = f"import runpy; print(runpy.run_path({str(script)!r})['page'](), end='')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "docs" / "settings.md").read_text(), "run docs/settings.py"


def test_every_public_name_is_in_the_reference() -> None:
    named = set(
        re.findall(r"auto(?:class|function|exception):: (\w+)", (ROOT / "docs/api.md").read_text())
    )
    assert named - {"trilemma"} == set(trilemma.__all__)


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/trilemma/__init__.py"
    assert f"version: {trilemma.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {trilemma.__version__}" in (ROOT / "CHANGELOG.md").read_text()


SNIPPETS = [
    pytest.param(page, snippet, id=page.stem, marks=[pytest.mark.slow] if slow else [])
    for page in PAGES
    for slow in [page.name == "extending.md"]
    if slow or page.name in ("start.md", "mechanisms.md")
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
]
LINES = [
    pytest.param(line, id=line[:60])
    for page in PAGES
    for line in re.findall(r"^\$ trilemma (.*)$", page.read_text(), flags=re.MULTILINE)
]


@pytest.mark.parametrize(("page", "snippet"), SNIPPETS)
def test_what_a_page_shows_in_python_runs(
    page: Path, snippet: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(snippet, page.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_imports_of_trilemma_is_there(page: Path) -> None:
    """Of snippets that need an app around them: they are Python, and what they name exists."""
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        for node in ast.walk(ast.parse(snippet)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("trilemma"):
                for name in node.names:
                    module = importlib.import_module(str(node.module))
                    assert hasattr(module, name.name), f"{page.name}: {node.module}.{name.name}"


@pytest.mark.parametrize("line", LINES)
def test_what_a_page_shows_on_the_command_line_is_understood(line: str) -> None:
    import shlex

    from typer.main import get_command

    from trilemma.cli.main import app

    name, *words = shlex.split(line, comments=True)
    commands: object = get_command(app)
    commands.commands[name].make_context(name, words)  # type: ignore[attr-defined]
