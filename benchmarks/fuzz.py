"""Bad input against every door: 100,000 generated inputs, and what becomes of them.

    python benchmarks/fuzz.py [--seed 11] [--share 1.0] [--only KIND] [--number N]

An input is accepted, refused in one sentence, or BROKEN: another exception, a warning, a hang, a
refusal that is no sentence, or something accepted that must not be. `--only specs --number 17`
tries one input again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the doors, and the made-up verdict of the tests

from benchmarks.fuzzing.commands import commands  # noqa: E402
from benchmarks.fuzzing.documents import verdicts  # noqa: E402
from benchmarks.fuzzing.journals import journals  # noqa: E402
from benchmarks.fuzzing.judging import ACCEPTED, BROKEN, REFUSED, Door, Tally, tried  # noqa: E402
from benchmarks.fuzzing.keys import keys  # noqa: E402
from benchmarks.fuzzing.settings import budgets, settings  # noqa: E402
from benchmarks.fuzzing.specs import names, specs  # noqa: E402
from benchmarks.fuzzing.wire import messages  # noqa: E402
from benchmarks.pages.stamp import stamp  # noqa: E402

SEED = 11
DOORS: dict[str, tuple[Door, int]] = {
    "command lines": (commands, 10_000),
    "settings": (settings, 20_000),
    "specs": (specs, 24_000),
    "verdicts": (verdicts, 8_000),
    "journals": (journals, 5_000),
    "keys": (keys, 8_000),
    "wire messages": (messages, 15_000),
    "names": (names, 5_000),
    "budgets": (budgets, 5_000),
}
PAGE = ROOT / "docs" / "benchmarks" / "fuzz.md"
INTRODUCTION = """\
Inputs are valid ones by the grammar, valid ones with one to three changes (bits flipped, pieces
deleted or doubled, keys doubled, types swapped, deep nesting, numbers such as `1e999`, `5e-324`,
`nan` and 400 digits, over-long names, terminal escapes, lone surrogates, `?`, `%`, `{`), and
noise. Accepted means that the value is in its domain and that its own text or bytes give it again
(a command line runs up to where the work would start, and the command that repeats it asks for the
same); a wire message is the one that was sent, or differs where its transport leaves that to the
connection. Refused means one printable line of at most 1,000 characters that ends as a sentence,
and a command that leaves no folder behind. Broken is everything else: another exception, a
warning, thirty seconds on one input, a wrong value accepted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--share", type=float, default=1.0, help="of all inputs")
    parser.add_argument("--only", choices=list(DOORS))
    parser.add_argument("--number", type=int, help="this input alone")
    chosen = parser.parse_args()
    found: dict[str, tuple[Tally, float]] = {}
    for kind, (door, count) in DOORS.items():
        if chosen.only not in (None, kind):
            continue
        start = time.process_time()
        numbers = range(max(1, round(chosen.share * count)))
        if chosen.number is not None:
            numbers = range(chosen.number, chosen.number + 1)
        found[kind] = tried(door, chosen.seed, kind, numbers), time.process_time() - start
        for number, what in found[kind][0].broken:
            print(f"{kind} {number}: {what}", flush=True)
    table = "\n".join(_rows(found)) + "\n"
    print(table, end="")
    if chosen.only is None and chosen.share == 1:
        arguments = "" if chosen.seed == SEED else f" --seed {chosen.seed}"
        head = f"# Bad input\n\n`python benchmarks/fuzz.py{arguments}`, {stamp()}\n"
        PAGE.write_text(f"{head}\n{INTRODUCTION}\n\n{table}")
    if any(tally.broken for tally, _ in found.values()):
        sys.exit(1)


def _rows(found: dict[str, tuple[Tally, float]]) -> list[str]:
    rows = ["| kind | inputs | accepted | refused | broken | CPU s |", "|---|---|---|---|---|---|"]
    outcomes = (ACCEPTED, REFUSED, BROKEN)
    total = [0] * len(outcomes)
    for kind, (tally, seconds) in found.items():
        counts = [tally.counts[outcome] for outcome in outcomes]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        cells = " | ".join(f"{count:,}" for count in (sum(counts), *counts))
        rows.append(f"| {kind} | {cells} | {seconds:.0f} |")
    cells = " | ".join(f"{value:,}" for value in (sum(total), *total))
    return [*rows, f"| all | {cells} | {sum(seconds for _, seconds in found.values()):.0f} |"]


if __name__ == "__main__":
    main()
