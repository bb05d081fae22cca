"""A real browser, Debian's chromium driven by playwright, and the pages that it opens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.reporting import examples, training

from trilemma.reporting.page.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra `dev`")
    with sync_api.sync_playwright() as playwright:
        # As root, which CI is, chromium has no sandbox.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    examples.verdict().save(folder / "verdict.json")
    examples.gallery().save(folder / "gallery.json")
    return write_report(examples.verdict(), folder)


@pytest.fixture(scope="session")
def front(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("front")
    return write_report(examples.front(), folder)


@pytest.fixture(scope="session")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(training.over_rounds(), tmp_path_factory.mktemp("rounds"))
