"""Writes docs/worked/: two verdicts from real runs, each line explained.

`python docs/worked.py` makes both runs (an hour on two cores); `python docs/worked.py TUNED AUDITED`
reads the folders of runs that are there.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

from trilemma import Verdict, audit, tune
from trilemma.reporting.words.audit_text import show_audit
from trilemma.reporting.words.verdict_text import show_verdict
from trilemma.tuning.audit.audit_result import Audit

FOLDER = Path(__file__).with_name("worked")
RUNS = Path("runs") / "worked"
SETTING = "nvflare.PercentilePrivacy"

_INDEX = """# Two worked verdicts

Both are what a command printed, unchanged, and then what each part means.

- [Digits, protected](digits.md): what `trilemma tune` finds, and proves.
- [NVFlare's PercentilePrivacy, audited](nvflare.md): what a stock setting is worth.

```{toctree}
:hidden:

digits
nvflare
```
"""

_DIGITS = """# Digits, protected

Ten clients with 150 handwritten digits each train a small network; each round every client sends one
gradient. {made}

```text
{printed}
```

## What it says

- **Who is held off.** {headline}
- **How sure.** {rests}
- **What to run.** `{spec}`. `trilemma deploy` writes an app with these terms, the number of rounds, the
  clip and the server's step; another training is refused, because it was not judged.
- **What it costs.** The metric goes from {before} to {after}; the interval says how well
  {seeds} paired trainings can tell. Noise alone costs more than noise inside secret sharing: there each
  client adds a part of the noise only, since the server reads the sum.
- **What it does not say.** The limit is for one record of one person, over the rounds that it names, at
  a node whose code is what it says. A second training spends the budget a second time.

To doubt it: `trilemma attack` on this run plays fresh games and says *holds*, *fails* or *undecided*
for each threat model. To check a deployment: `trilemma canaries`.
"""

_AUDIT = """# NVFlare's PercentilePrivacy, audited

`PercentilePrivacy` with its defaults is a filter that a site's `privacy.json` may hold. Digits stand in
for the site's data. {made}

```text
{printed}
```

## What it says

- **Does it keep the budget?** {keeps} The budget of {budget:g} allows {allowed:.0f} of 100 right guesses
  among {size} candidates, and a blind guess is right in {blind:.1f}.
- **Who finds the record.** {who}
- **What is proved.** {proved}
- **What it costs.** {cost}
- **What to do.** {instead}
"""


def _printed(found: Verdict | Audit) -> str:
    """What the command prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        if isinstance(found, Verdict):
            show_verdict(found)
        else:
            show_audit(found)
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def _made(command: str, versions: dict[str, str], file: Path) -> str:
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return (
        f"`{command}` (code {versions['code']}, {day:%Y-%m-%d}, Python {versions['python']}, torch "
        f"{versions['torch']}); the page is made by `python docs/worked.py`."
    )


def digits(folder: Path) -> str:
    """The page of a verdict."""
    verdict = Verdict.load(folder)
    chosen = verdict.choice
    assert chosen is not None
    assert chosen.costs is not None
    assert verdict.protection is not None
    costs = chosen.costs
    return _DIGITS.format(
        made=_made(verdict.reproduce, verdict.versions, folder / "verdict.json"),
        printed=_printed(verdict),
        headline=verdict.headline,
        rests="Proved: it holds for any attack, by a bound on the noise."
        if chosen.certificate is not None
        else "Measured: every granted attack failed its test on fresh games.",
        spec=verdict.protection.describe(),
        before=f"{100 * costs.unprotected_metric:.0f} %",
        after=f"{100 * costs.protected_metric:.0f} %",
        seeds=verdict.request.seeds,
    )


def audited(folder: Path) -> str:
    """The page of an audit."""
    found = Audit.load(folder)
    size, allowed = found.claim.candidates, 100 * found.largest_success_rate
    best = [known for known in found.known if known.attempts]
    rates = [
        f"{known.knows}: {known.attempts[0].recovered} of {known.attempts[0].units} games, by "
        f"{known.attempts[0].attack}"
        for known in best
    ]
    lost = found.accuracy.lost
    nearest = (
        found.no_nearest
        if found.nearest is None
        else f"The nearest that does: `{found.nearest.paste}`."
    )
    return _AUDIT.format(
        made=_made(found.reproduce, found.versions, folder / "audit.json"),
        printed=_printed(found),
        keeps="Yes." if found.keeps else "No.",
        budget=found.budget,
        allowed=allowed,
        size=size,
        blind=100 / size,
        who=f"Right guesses by what the attacker knows: {'; '.join(rates)}.",
        proved="Nothing: the filter adds no noise that a bound could count."
        if found.proof is None
        else f"ε = {found.proof.epsilon:.3g} over all rounds.",
        cost="The training does not end with a model."
        if lost is None
        else f"{100 * lost.value:.0f} points of accuracy, between {100 * lost.low:.0f} and "
        f"{100 * lost.high:.0f}.",
        instead=f"{nearest} Or tune for a proof: [five-minute start](../start.md).",
    )


def main() -> None:
    """Write the three pages."""
    if len(sys.argv) == 3:
        tuned, checked = map(Path, sys.argv[1:])
    else:
        tuned, checked = RUNS / "digits", RUNS / "audit"
        families = "randomization,randomization+secret-sharing"
        tune("digits", out=tuned, workers=2, restarts=1, seeds=3, strengths=2, families=families)
        audit("digits", SETTING, out=checked, workers=2)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "index.md").write_text(_INDEX)
    (FOLDER / "digits.md").write_text(digits(tuned))
    (FOLDER / "nvflare.md").write_text(audited(checked))


if __name__ == "__main__":
    main()
