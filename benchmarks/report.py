"""How long the report takes to be made and to open, against an empty page; needs chromium."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the made-up verdict of the tests

from tests.reporting import examples  # noqa: E402

from benchmarks.pages.stamp import stamp  # noqa: E402
from trilemma.reporting.page.page import write_report  # noqa: E402

TABLE = ROOT / "docs" / "benchmarks" / "report.md"
EMPTY = "<!doctype html><title>empty</title><p>empty"
# From the start of the navigation until two frames later everything is on the screen.
PAINTED = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
    () => done(performance.now()))))"""


def opened(browser: Browser, path: Path, repeats: int = 15) -> list[float]:
    """Milliseconds until the page is painted, each time in a fresh context."""
    times = []
    for _ in range(repeats + 1):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(path.as_uri(), wait_until="load")
        times.append(float(page.evaluate(PAINTED)))
        context.close()
    return times[1:]


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("skipped: needs chromium (apt-get install chromium)")
        return
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        examples.gallery().save(folder / "gallery.json")
        verdict = examples.verdict()
        write_report(verdict, folder)
        start = time.perf_counter()
        report = write_report(verdict, folder)
        made = time.perf_counter() - start
        empty = folder / "empty.html"
        empty.write_text(EMPTY)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        rows = [
            (title, opened(browser, path), path.stat().st_size)
            for title, path in (("report", report), ("an empty page (baseline)", empty))
        ]
        browser.close()
    lines = ["| page | kB | ms until painted (median of 15) | slowest |", "|---|---|---|---|"]
    lines += [
        f"| {title} | {size / 1000:.1f} | {statistics.median(times):.0f} | {max(times):.0f} |"
        for title, times, size in rows
    ]
    table = "\n".join(lines) + "\n"
    remark = (
        "Four families of 20 points each, six attacks on sixteen records "
        "in the gallery. Writing "
        f"it takes {made:.2f} s once the libraries are imported.\n"
    )
    TABLE.write_text(f"# Report\n\n`python benchmarks/report.py`, {stamp()}\n\n{remark}\n{table}")
    print(remark, table, sep="\n", end="")


if __name__ == "__main__":
    main()
