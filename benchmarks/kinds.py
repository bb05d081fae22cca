"""What attacks make of tables, texts and networks with BatchNorm: columns, tokens, candidates."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the generated table of the tests, and what all pages share

from tests.attacks.mixed_table import generated, right_columns, views_of  # noqa: E402
from tests.game.test_real_networks import convolutional, of, solved  # noqa: E402

from benchmarks.pages.stamp import stamp  # noqa: E402
from trilemma.attacks import Tokens, get  # noqa: E402
from trilemma.beliefs.intervals import clopper_pearson  # noqa: E402
from trilemma.game.scenario import Scenario  # noqa: E402
from trilemma.scenarios import load_scenario  # noqa: E402

TABLE = ROOT / "docs" / "benchmarks" / "kinds.md"
UNITS = 100
GAMES = 128
PROTECTIONS = ("none", "randomization:variance=1e-4", "randomization:variance=1e-2")


def columns(name: str, scenario: Scenario) -> list[str]:
    """The share of right columns, by attack and protection; batches of 4."""
    lines = []
    for protection in PROTECTIONS:
        views, truth = views_of(scenario, UNITS, protection)
        shares = [
            right_columns(scenario, get(attack)(views, restarts=1, seed=0).inputs, truth)
            for attack in ("analytic", "tableak")
        ]
        lines.append(f"| {name} | {protection} | " + " | ".join(f"{s:.3f}" for s in shares) + " |")
    return lines


def tokens(scenario: Scenario) -> str:
    """Batches of 8 sentences of which exactly the tokens that they hold are found."""
    views, truth = views_of(scenario, UNITS)
    there = Tokens()(views, restarts=1, seed=0).tokens
    if there is None:
        raise SystemExit("the attack on tokens told none")
    held = torch.zeros_like(there, dtype=torch.bool).scatter(1, truth.flatten(1), True)
    right = int(((there > 0.5) == held).all(1).sum())
    found = f"{right} of {UNITS}"
    return f"Batches of 8 sentences of which all tokens, and no others, are found: {found}."


def candidate_sets(name: str, scenario: Scenario, attacks: tuple[str, ...]) -> list[str]:
    """The share of unprotected candidate sets that attacks solve, of one round."""
    lines = []
    for attack in attacks:
        rate = solved(scenario, attack, GAMES)
        sure = clopper_pearson(round(rate * GAMES), GAMES)
        lines.append(f"| {name} | {attack} | {rate:.3f} | {sure.low:.3f} .. {sure.high:.3f} |")
    return lines


def main() -> None:
    made: dict[str, Callable[[], Scenario]] = {
        "breast-cancer": lambda: load_scenario("breast-cancer"),
        "diabetes": lambda: load_scenario("diabetes"),
        "generated": generated,
    }
    text = load_scenario("text")
    normalised = of(load_scenario("digits", clients=4), convolutional())
    posteriors = ("gaussian-posterior", "exact-posterior")
    page = [
        "# Tables, texts, BatchNorm",
        "",
        f"`python benchmarks/kinds.py`, {stamp()}",
        "",
        (
            f"Share of columns right (within .25 standard deviations, or the exact level), "
            f"{UNITS} batches of 4 records, at models after 20 steps, one message:"
        ),
        "",
        "| table | protection | analytic | tableak |",
        "|---|---|---|---|",
        *(line for name, make in made.items() for line in columns(name, make())),
        "",
        tokens(text),
        "",
        f"Candidate sets of 100 that are solved without protection, {GAMES} games, one round:",
        "",
        "| records | attack | solved | 95 % interval |",
        "|---|---|---|---|",
        *candidate_sets("text, batch 8", text, ("tokens", *posteriors)),
        *candidate_sets("digits, CNN with BatchNorm, batch 4", normalised, posteriors),
    ]
    TABLE.write_text("\n".join(page) + "\n")
    print("\n".join(page))


if __name__ == "__main__":
    main()
