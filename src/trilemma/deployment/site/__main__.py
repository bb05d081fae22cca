"""`python -m trilemma.deployment.site` prints the folder."""

from __future__ import annotations

from pathlib import Path

print(Path(__file__).parent)
