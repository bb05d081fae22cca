"""A verdict hands over to reporting/ when it is looked at, and to nothing before."""

from __future__ import annotations

import subprocess
import sys

from tests.reporting.examples import verdict

from trilemma.reporting import notebook


def test_it_shows_what_reporting_makes_of_it() -> None:
    found = verdict()
    assert repr(found) == notebook.short(found)
    assert found._repr_html_() == notebook.verdict_cell(found)
    assert len(found.plot_leakage().axes) == len(notebook.leakage_figure(found).axes)


def test_reporting_is_not_loaded_before() -> None:
    code = (
        "import sys, trilemma.tuning.results.verdict\n"
        "print([name for name in sys.modules if name.startswith('trilemma.reporting')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
