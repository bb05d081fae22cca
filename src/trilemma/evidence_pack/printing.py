"""The page as a PDF, printed by a Chromium that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["print_page"]

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "msedge")
_SECONDS: Final = 120


def print_page(page: bytes) -> tuple[bytes | None, str]:
    """The PDF of a page as its style prints it; else None, and a sentence that says why."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        return None, "There is no Chromium here, so that the pack has no PDF; it is complete."
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, target = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_bytes(page)
        command = [
            *(found, "--headless", "--disable-gpu", "--no-pdf-header-footer"),
            *(f"--user-data-dir={folder}/profile", f"--print-to-pdf={target}"),
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            source.as_uri(),
        ]
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS)
            return target.read_bytes(), ""
        except (OSError, subprocess.SubprocessError) as error:
            why = type(error).__name__
            return None, f"{found} printed no PDF ({why}), so the pack has none; it is complete."
