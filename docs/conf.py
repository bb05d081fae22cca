"""How the site is built: `make docs` turns these pages, the notebooks and the docstrings to HTML."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trilemma

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "trilemma"
author = "the trilemma maintainers"
version = release = trilemma.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"trilemma {version}"

# Markdown is what GitHub shows, too: headings are anchors, and nothing needs Sphinx to be read.
myst_heading_anchors = 4
nb_execution_mode = "off"  # the outputs are those that tests/test_notebooks.py holds

default_role = "code"  # docstrings are written with single backticks
autodoc_typehints = "signature"
maximum_signature_line_length = 80
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

_HERE = Path(__file__).parent
_ABOVE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def _copy_what_lies_above(app: Sphinx) -> None:
    """Sphinx reads below docs/ only: notebooks and the repository's own pages come along."""
    for folder in ("notebooks", "repository"):
        (_HERE / folder).mkdir(exist_ok=True)
    for path in (_HERE.parent / "examples").glob("*.ipynb"):
        shutil.copy(path, _HERE / "notebooks")
    for name in _ABOVE:
        text = (_HERE.parent / name).read_text()
        (_HERE / "repository" / name).write_text(text.replace("](docs/", "](../"))


def _link_to_copies(app: Sphinx, name: str, content: list[str]) -> None:
    """A page's links to what lies above docs/ lead to the copies."""
    content[0] = re.sub(r"\]\((?:\.\./)+([A-Z]+\.md)", r"](/repository/\1", content[0])


def _escape(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """In docstrings | and * are what they look like: absolute values, and any shape."""
    for place, line in enumerate(lines):
        parts = re.split(r"(`[^`]*`)", line)
        parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
        lines[place] = line if line.lstrip().startswith(">>>") else "".join(parts)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", _copy_what_lies_above)
    app.connect("source-read", _link_to_copies)
    app.connect("autodoc-process-docstring", _escape)
