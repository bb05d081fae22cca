"""What stock privacy settings of Flower, NVFlare and Opacus buy, on digits in place of their data.

Each is `trilemma audit SETTING --workers 1`, one after the other, in runs/benchmark-audit, where a
run that was stopped goes on; writes docs/benchmarks/audit.md.
"""

from __future__ import annotations

import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.pages.stamp import machine, stamp
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


def row(audited: Audit, seconds: float, note: str) -> str:
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
        f"{seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def audited(setting: str) -> tuple[Audit, float]:
    """An audit and its CPU seconds, kept from an earlier run where that is complete."""
    folder = RUNS / f"{zlib.crc32(setting.encode()):08x}"
    kept = folder / "cpu-seconds"
    if not kept.exists():
        start = time.process_time()
        audit("digits", setting, out=folder, workers=1)
        kept.write_text(str(time.process_time() - start))
    return Audit.load(folder), float(kept.read_text())


def main() -> None:
    """Write the page."""
    several = {setting: audited(setting) for setting in SETTINGS}
    rows = [row(*made, SETTINGS[setting]) for setting, made in several.items()]
    best = next((found.best for found, _ in several.values() if found.best), None)
    found, _ = next(iter(several.values()))
    games = max(attempt.units for known in found.known for attempt in known.attempts)
    size = found.claim.candidates
    intro = (
        f"`python benchmarks/audit.py` ({stamp()}; {machine()})\n\n"
        "Digits in place of their data: 10 clients, 150 rounds; the server reads what is sent. "
        f"Rates of right guesses among {size} candidates over the whole training, by what the "
        f"attacker knows, of its best attack ({games} games "
        f"each; blind {1 / size:.3f}); ε at δ = 1e-5 "
        "against the server; accuracy lost against the same training without the setting; the "
        f"nearest setting of the same kind that keeps a leakage of {found.budget:g} "
        f"({found.largest_success_rate:.2f} right guesses). The last column is CPU seconds of one "
        "worker, all of the audit; two workers share them. Opacus' ε counts that batches are "
        "secret, while attackers here know which rounds use a record."
    )
    head = "| setting | | nothing | public | candidates | rest | ε | lost | same kind | CPU s |"
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
