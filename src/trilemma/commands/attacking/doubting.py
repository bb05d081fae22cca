"""`trilemma attack VERDICT`: what a verdict chose, attacked once more with fresh games."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilemma.commands.measuring import resumable, show_or_dump
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.commands.settings import Running
    from trilemma.estimation.scenario import Scenario

__all__ = ["attack_verdict"]


def attack_verdict(
    path: Path,
    running: Running,
    *,
    scenario: str | None,
    public: str | None,
    units: int,
    restarts: int | None,
    seed: int | None,
) -> None:
    """Play fresh games against a verdict on every rung, and print what each attack won."""
    import secrets

    from trilemma.work.files import is_folder
    from trilemma.work.progress import Ticker

    file = path / "verdict.json" if is_folder(path) else path
    chosen = secrets.randbelow(1 << 31) if seed is None else seed
    with Ticker("attack") as ticker:
        ticker.say(f"reading {file}")
        from trilemma.reporting.words.again import show_again  # imports torch, for seconds
        from trilemma.tuning.again import attack_again
        from trilemma.tuning.results.verdict import Verdict

        verdict = Verdict.load(file)
        described = {
            "command": "attack",
            "verdict": verdict.as_json(),
            "scenario": scenario,
            "public": public,
            "units": units,
            "restarts": restarts,
            "seed": chosen,
        }
        folder = running.out or file.parent / f"attack-{chosen}"
        with resumable(folder, described, fresh=running.fresh) as run:
            found = attack_again(
                partial(_scenario, verdict.source, scenario, public),
                verdict,
                units=units,
                seed=chosen,
                restarts=restarts,
                run=run,
                ticker=ticker,
                **running.crew,
            )
    document = {
        "headline": verdict.headline,
        "largest_success_rate": verdict.largest_success_rate,
        "seed": chosen,
        "attacks": [asdict(each) for each in found],
    }
    where = f"seed {chosen}, run folder {folder}"
    show_or_dump(document, running, partial(show_again, verdict, found), where)


def _scenario(options: dict[str, Any], spec: str | None, public: str | None) -> Scenario:
    """The scenario of the verdict, with other public records where they are asked for."""
    from trilemma.naming import load_object
    from trilemma.scenarios import load_scenario

    chosen = dict(options)
    name = spec or chosen.pop("scenario", None)
    chosen.pop("scenario", None)
    if name is None:
        raise InvalidInput(
            "the verdict was made in Python and does not say how to make its scenario; name it "
            "with --scenario module:function."
        )
    made = load_scenario(name, **chosen)
    if public is None:
        return made
    records = load_object("public records", public)
    return replace(made, public=records() if callable(records) else records)
