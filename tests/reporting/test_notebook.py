"""What a notebook shows of a verdict; `Verdict` itself hands over to reporting/notebook."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.reporting.examples import candidate, verdict
from tests.reporting.training import after_rounds

from trilemma.errors import InvalidInput
from trilemma.reporting import notebook


def test_one_line() -> None:
    found = verdict()
    assert repr(found) == str(found) == notebook.short(found)
    assert len(repr(found)) < 200
    assert repr(found).startswith("Verdict(use noise of variance ")
    assert "guessed right in" in repr(found)
    assert " % → " in repr(found)
    assert repr(verdict(chosen=None, protection=None)).startswith("Verdict(nothing was shown")


def test_the_summary_holds_the_headline_and_no_markup_of_others() -> None:
    found = verdict(headline="<script>alert(1)</script> is held off.")
    html = found._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_figures_show_what_there_is() -> None:
    found = verdict()
    budget = found.request.budget
    panels = found.plot_leakage().axes
    assert len(panels) > 1
    assert any(budget in np.asarray(line.get_ydata()) for line in panels[0].lines)
    watched = verdict(curves=(), rounds=after_rounds())
    assert watched.plot_leakage().axes[0].get_xlabel() == "rounds"
    (ranked, _) = verdict(curves=(), rounds=()).plot_leakage().axes
    assert ranked.get_xlabel() == "leakage"


def test_a_notebook_is_told_how_to_show_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    tools = SimpleNamespace(select_figure_formats=lambda shell, forms: told.append(forms))
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.core.pylabtools", tools)
    verdict().plot_leakage()
    assert told == [{"png"}]


def test_the_frame_has_a_row_for_each_candidate() -> None:
    pytest.importorskip("pandas", reason="frames need pandas")
    found = verdict()
    frame = found.to_frame()
    assert len(frame) == len(found.candidates)
    (row,) = frame[frame.chosen].to_dict("records")
    assert found.choice is not None
    assert found.choice.leakage is not None
    assert row["leakage"] == found.choice.leakage.value
    bare = replace(
        candidate("randomization", 1, 0.1, "none"), leakage=None, success=None, costs=None
    )
    assert verdict(candidates=(bare,)).to_frame().leakage.isna().all()


def test_without_pandas_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match="a frame needs pandas"):
        verdict().to_frame()
