"""What stock privacy settings of Flower, NVFlare and Opacus buy, on digits in place of their data.

Each is `trilemma audit SETTING`; writes docs/benchmarks/audit.md, of all of them, or of the run
folders that are given.
"""

from __future__ import annotations

import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.pages.stamp import stamp
from trilemma.api import audit
from trilemma.reporting.words.numbers import number
from trilemma.tuning.audit.audit_result import Audit

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "audit.md"
RUNS = Path("runs") / "benchmark-audit"
_CENTRAL = "noise_multiplier=1,clipping_norm=1"
SETTINGS = {
    "none": "nothing",
    "flower.LocalDpMod:clipping_norm=1,sensitivity=1e-4,epsilon=10,delta=1e-5": "as often copied",
    "flower.LocalDpMod:clipping_norm=1,sensitivity=1,epsilon=10,delta=1e-5": "its sensitivity set",
    "flower.fixedclipping_mod:clipping_norm=1": "clipping alone",
    f"flower.DifferentialPrivacyServerSideFixedClipping:{_CENTRAL}": "noise at the server",
    "flower.adaptiveclipping_mod": "its defaults",
    "flower.SecAggPlus": "its defaults",
    "nvflare.PercentilePrivacy": "its defaults",
    "nvflare.SVTPrivacy": "its defaults",
    "nvflare.ExcludeVars:exclude_vars=bias$": "no bias is sent",
    "opacus.PrivacyEngine:noise_multiplier=1,max_grad_norm=1": "as in its tutorial",
    "quantisation:bits=8": "8 bits a coordinate",
    "top-k:keep=0.01": "a hundredth of the coordinates",
}


def row(audited: Audit, note: str, seconds: float | None) -> str:
    """One line of the table."""
    rates = [
        f"{known.attempts[0].success.value:.2f}" if known.attempts else "–"
        for known in audited.known
    ]
    proof = audited.proof
    epsilon = "none" if proof is None else number(proof.epsilon)
    lost = "does not train"
    if audited.accuracy.lost is not None:
        lost = f"{100 * audited.accuracy.lost.value:.0f} points"
    nearest = "none" if audited.nearest is None else f"`{audited.nearest.paste}`"
    if audited.keeps:
        nearest = "keeps it"
    cells = (
        f"`{audited.setting}`",
        note,
        *rates,
        epsilon,
        lost,
        nearest,
        "–" if seconds is None else f"{seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def audits() -> list[tuple[Audit, float | None]]:
    """Of the run folders given, or of all settings, with seconds by the clock."""
    if len(sys.argv) > 1:
        return [(Audit.load(Path(folder)), None) for folder in sys.argv[1:]]
    made: list[tuple[Audit, float | None]] = []
    for setting in SETTINGS:
        start = time.perf_counter()
        folder = RUNS / f"{zlib.crc32(setting.encode()):08x}"
        made.append((audit("digits", setting, out=folder, workers=2), time.perf_counter() - start))
    return made


def main() -> None:
    """Write the page."""
    several = audits()
    rows = [row(found, SETTINGS.get(found.setting, ""), seconds) for found, seconds in several]
    best = next((found.best for found, _ in several if found.best), None)
    found, _ = several[0]
    games = max(attempt.units for known in found.known for attempt in known.attempts)
    size = found.claim.candidates
    given = "".join(f" {folder}" for folder in sys.argv[1:])
    intro = (
        f"`python benchmarks/audit.py{given}` ({stamp()})\n\n"
        "Digits in place of their data: 10 clients, 150 rounds; the server reads what is sent. "
        f"Rates of right guesses among {size} candidates over the whole training, by what the "
        f"attacker knows, of its best attack ({games} games "
        f"each; blind {1 / size:.3f}); ε at δ = 1e-5 "
        "against the server; accuracy lost against the same training without the setting; the "
        f"nearest setting of the same kind that keeps a leakage of {found.budget:g} "
        f"({found.largest_success_rate:.2f} right guesses). Seconds by the clock with two "
        "workers."
    )
    head = "| setting | | nothing | public | candidates | rest | ε | lost | same kind | s |"
    lines = [
        "# Audits of stock settings",
        "",
        intro,
        "",
        head,
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [*rows, ""]
    if best is not None and best.accuracy.lost is not None:
        told = (
            f"Best of any kind: `{best.protection}`, proved, ε = {number(best.epsilon)}, at most "
            f"{best.success:.2f} right guesses, {100 * best.accuracy.lost.value:.0f} points lost."
        )
        lines += [told, ""]
    PAGE.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
