"""Builds wheel and sdist twice, to the same bytes, and tunes by the wheel in an empty venv."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The demo's question, in a minute: one family, a short training, no attacks after the answer.
TUNE = (
    *("tune", "--families", "randomization+secret-sharing", "--knows", "anyone", "--seeds", "2"),
    *("--strengths", "0", "--rounds", "150"),
)


def built(folder: Path) -> dict[str, bytes]:
    """Both archives by name, made from the last commit's time."""
    stamp = subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True
    ).stdout.strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": stamp or "1700000000"}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = built(folder / "first"), built(folder / "second")
        if first != second:
            sys.exit("two builds of one commit differ.")
        (wheel,) = (folder / "first").glob("*.whl")
        if not any(archive.endswith(".tar.gz") for archive in first):
            sys.exit("no sdist was built.")
        subprocess.run([sys.executable, "-m", "venv", folder / "empty"], check=True)
        python = folder / "empty" / "bin" / "python"
        install = ["-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
        subprocess.run([python, *install], check=True)
        command = [python.with_name("trilemma"), *TUNE, "--out", folder / "run"]
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=clean, cwd=folder
        )
        print(done.stdout)
        answer, shown = (
            float(re.findall(r"randomization:variance=([\d.e-]+)\+", text)[0])
            for text in (
                (folder / "run" / "verdict.json").read_text(),
                (ROOT / "docs" / "worked" / "digits.md").read_text(),
            )
        )
        if "Proved" not in done.stdout or f"{answer:.6g}" != f"{shown:.6g}":
            sys.exit(f"the wheel answered a variance of {answer}, and docs/worked shows {shown}.")
        print(*first)


if __name__ == "__main__":
    main()
