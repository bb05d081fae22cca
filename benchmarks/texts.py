"""What DAGER reads of language models' updates: whole batches without protection, and under it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for what all pages share

from benchmarks.pages.stamp import stamp  # noqa: E402
from trilemma.accounting.noise_calibration import noise_multiplier_for, success_bound  # noqa: E402
from trilemma.accounting.sampled_training import Training  # noqa: E402
from trilemma.attacks import Dager  # noqa: E402
from trilemma.beliefs.intervals import clopper_pearson  # noqa: E402
from trilemma.game.playing.games import Arena  # noqa: E402
from trilemma.game.playing.guesses import play  # noqa: E402
from trilemma.game.playing.observer import Observer  # noqa: E402
from trilemma.game.recovering.units import Measurement, observe_units  # noqa: E402
from trilemma.game.scenario import Scenario  # noqa: E402
from trilemma.learning import LocalTraining  # noqa: E402
from trilemma.observations import Adversary  # noqa: E402
from trilemma.protection.specs import parse_protection  # noqa: E402

TABLE = ROOT / "docs" / "benchmarks" / "texts.md"
TOKENS, LENGTH, BATCH = 64, 16, 4
CLIP = 0.1


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def texts(count: int, seed: int) -> tuple[torch.Tensor, None]:
    """Random tokens: nothing but the update tells one from another."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(TOKENS, (count, LENGTH), generator=draw), None


def gpt2() -> nn.Module:
    """A GPT-2 of 2 layers x 128, from its configuration alone."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=TOKENS, n_positions=LENGTH, n_embd=128, n_layer=2, n_head=4,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    made: nn.Module = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    return made


def redraw(model: nn.Module) -> None:
    """GPT-2's own start: normal, deviation 0.02, and ones in its norms."""
    for name, item in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(item)
        elif ".ln_" in name:
            nn.init.ones_(item)
        else:
            nn.init.normal_(item, std=0.02)


def scenario(**training: object) -> Scenario:
    return Scenario(
        gpt2(),
        next_token,
        clients=[texts(100, client) for client in range(6)],
        test=texts(50, 99),
        local_training=LocalTraining(batch=BATCH, lr=0.5, **training),  # type: ignore[arg-type]
        initialise=redraw,
        name="gpt2",
    )


def whole(made: Scenario, batches: int) -> tuple[int, int]:
    """Of unprotected batches those that are read to the last token, and tokens read at all."""
    asked = Measurement(units=batches, steps=0)
    units = observe_units(made, asked, range(batches), protected=False)
    found = Dager()(units.views, restarts=1, seed=0).inputs
    truth = units.records.inputs
    right = [_matched(one, other) for one, other in zip(found, truth, strict=True)]
    return sum(item == BATCH * LENGTH for item in right), sum(right)


def _matched(found: torch.Tensor, truth: torch.Tensor) -> int:
    """Tokens [S, L] in their places, texts paired as well as can be."""
    same = (found[:, None] == truth[None]).sum(-1).numpy()
    rows, columns = linear_sum_assignment(-same)
    return int(same[rows, columns].sum())


def guessed(made: Scenario, deviation: float, games: int) -> tuple[int, int, int]:
    """Candidates, and games of one round that DAGER wins: without noise, and with it."""
    arena = Arena.of(made, rounds=1)
    won = []
    for spec in ("none", f"randomization:variance={deviation**2:.17g}"):
        seen = Observer(arena, parse_protection(spec), Adversary.SERVER, "public", 0, steps=0)
        count = games if spec != "none" else games // 15
        drawn = [arena.draw(number, 0) for number in range(count)]
        found = play(seen, drawn, seen.views(drawn), Dager(), restarts=1, seed=0)
        won.append(int(found.correct.sum()))
    return arena.claim.candidates, won[0], won[1]


def main() -> None:
    torch.set_num_threads(1)
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--batches", type=int, default=40)
    asked.add_argument("--games", type=int, default=300)
    given = asked.parse_args()
    batches, games = given.batches, given.games
    all_read, tokens = whole(scenario(), batches)
    sure = clopper_pearson(all_read, batches)
    z = noise_multiplier_for(0.3, rounds=1, q=1.0)
    protected = scenario(record_clip=CLIP)
    size, bare, noisy = guessed(protected, z * CLIP / BATCH, games)
    bound = success_bound(Training(1, 1.0, z, "known"), size)
    page = [
        "# Texts from a language model's updates",
        "",
        f"`python benchmarks/texts.py --batches {batches} --games {games}`, {stamp()}",
        "",
        (
            f"A GPT-2 of 2 layers x 128 (tied embedding, {TOKENS} tokens), fresh weights, all of "
            f"it trained; updates of {BATCH} texts of {LENGTH} random tokens, next-token loss."
        ),
        "",
        (
            f"DAGER, without protection: {all_read} of {batches} batches are read whole, to the "
            f"last token of every text ({sure.low:.3f} to {sure.high:.3f}); "
            f"{tokens:,} of {batches * BATCH * LENGTH:,} tokens stand in their places."
        ),
        "",
        (
            f"Which of {size} candidates was in the batch, one round, each record's gradient "
            f"clipped to {CLIP:g}: right in {bare} of {games // 15} games without noise, and in "
            f"{noisy} of {games} under noise of multiplier {z:.3f}, where the proof allows a rate "
            f"of {bound:.3f}: {bound * games:.0f} games."
        ),
    ]
    TABLE.write_text("\n".join(page) + "\n")
    print("\n".join(page))


if __name__ == "__main__":
    main()
