"""Seven federations with models as people write them, from docs/models.md alone.

`trilemma check benchmarks.model_scenarios:lstm` says of one what will be attacked.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, interpolate, one_hot

from trilemma import LocalTraining, Metric, Scenario
from trilemma.scenarios.images import images

PAGE = "docs/benchmarks/models.md"  # where the figures stand
TRAINING = LocalTraining("fedsgd", lr=0.1, batch=8)
ROUNDS = 60
PAD, WORDS = 0, 64


class Wave(nn.Module):
    """A recurrent network that reads a series and names its kind."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.rnn, self.head = kind(1, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.rnn(series)[0][:, -1])
        return made


def _waves(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy waves of three frequencies, [n, 20, 1]."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(3, (count,), generator=draw)
    time = torch.arange(20.0)
    phase = 2 * math.pi * torch.rand(count, 1, generator=draw)
    series = torch.sin(time * (0.3 + 0.5 * kind[:, None]) + phase)
    return (series + 0.2 * torch.randn(series.shape, generator=draw))[..., None], kind


def _recurrent(kind: type[nn.LSTM | nn.GRU]) -> Scenario:
    return Scenario(
        model=Wave(kind),
        loss=cross_entropy,
        clients=[_waves(300, seed) for seed in range(5)],
        test=_waves(300, 99),
        local_training=TRAINING,
        server_lr=1.0,
        rounds=ROUNDS,
        name=kind.__name__.lower(),
    )


def lstm() -> Scenario:
    return _recurrent(nn.LSTM)


def gru() -> Scenario:
    return _recurrent(nn.GRU)


class Gpt(nn.Module):
    """A causal transformer of 2 layers x 64 whose table of words is tied to its head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 64), nn.Embedding(16, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, nn.LayerNorm(64), enable_nested_tensor=False)
        self.head = nn.Linear(64, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        count = tokens.shape[1]
        read = self.words(tokens) + self.places(torch.arange(count, device=tokens.device))
        mask = torch.full((count, count), -math.inf, device=tokens.device).triu(1)
        made: torch.Tensor = self.head(self.body(read, mask=mask, is_causal=True))
        return made


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Mean over the tokens that are no padding."""
    wanted = tokens[:, 1:].masked_fill(tokens[:, 1:] == PAD, -100)
    return cross_entropy(scores[:, :-1].flatten(0, 1), wanted.flatten(), ignore_index=-100)


def perplexity(scores: torch.Tensor, tokens: torch.Tensor) -> float:
    return float(next_token(scores, tokens).exp())


def _texts(count: int, seed: int, length: int) -> torch.Tensor:
    """Texts in which each word has three likely successors, padded at their ends."""
    draw = torch.Generator().manual_seed(seed)
    text = torch.randint(1, WORDS, (count, 1), generator=draw)
    for _ in range(length - 1):
        next_word = (7 * text[:, -1:] + torch.randint(3, (count, 1), generator=draw)) % (WORDS - 1)
        text = torch.cat([text, next_word + 1], 1)
    ends = torch.randint(length // 2, length + 1, (count, 1), generator=draw)
    return text.masked_fill(torch.arange(length) >= ends, PAD)


def gpt() -> Scenario:
    return Scenario(
        model=Gpt(),
        loss=next_token,
        clients=[(_texts(200, seed, 16), None) for seed in range(5)],
        test=(_texts(200, 99, 16), None),
        metric=Metric(perplexity, better="lower"),
        local_training=TRAINING,
        rounds=ROUNDS,
        name="gpt",
    )


def adapters() -> Scenario:
    """LoRA of rank 8 on a GPT-2 of 2 layers x 128, by transformers and peft."""
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS, n_positions=24, n_embd=128, n_layer=2, n_head=4,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    body: Any = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    lora = LoraConfig(r=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)

    def records(count: int, seed: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        text = _texts(count, seed, 24)
        return {"input_ids": text, "attention_mask": (text != PAD).long()}, text

    return Scenario(
        model=get_peft_model(body, lora),
        loss=next_token,
        clients=[records(200, seed) for seed in range(5)],
        test=records(200, 99),
        local_training=TRAINING,
        server_lr=1.0,
        rounds=ROUNDS,
        name="lora",
    )


class UNet(nn.Module):
    """One step down, one up, and what was read before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = _block(1, 8), _block(8, 16), _block(24, 8)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        fine = self.down(pictures)
        coarse = self.middle(nn.functional.max_pool2d(fine, 2))
        made: torch.Tensor = self.head(
            self.up(torch.cat([fine, interpolate(coarse, scale_factor=2.0)], 1))
        )
        return made


def _block(read: int, wide: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(read, wide, 3, padding=1),
        nn.GroupNorm(4, wide),
        nn.ReLU(),
        nn.Conv2d(wide, wide, 3, padding=1),
        nn.GroupNorm(4, wide),
        nn.ReLU(),
    )


def _scans(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A bright disc and a grey square on noise [n, 1, 16, 16], and which pixel is which."""
    draw = torch.Generator().manual_seed(seed)
    down, across = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    disc, square = (torch.randint(4, 12, (count, 2, 1, 1), generator=draw) for _ in range(2))
    near = (down - disc[:, 0]) ** 2 + (across - disc[:, 1]) ** 2 <= 9
    inside = ((down - square[:, 0]).abs() <= 2) & ((across - square[:, 1]).abs() <= 2)
    masks = torch.where(near, 2, torch.where(inside, 1, 0))
    noise = 0.15 * torch.rand(masks.shape, generator=draw)
    return (0.42 * masks + noise)[:, None].clamp(0, 1), masks


def dice(scores: torch.Tensor, masks: torch.Tensor) -> float:
    """Mean over classes but the background."""
    found, true = (one_hot(item, 3)[..., 1:].flatten(0, -2) for item in (scores.argmax(1), masks))
    both = (found * true).sum(0)
    return float((2 * both / (found.sum(0) + true.sum(0)).clamp(min=1)).mean())


def unet() -> Scenario:
    return Scenario(
        model=UNet(),
        loss=cross_entropy,
        clients=[_scans(120, seed) for seed in range(5)],
        test=_scans(120, 99),
        metric=dice,
        local_training=TRAINING,
        server_lr=1.0,
        rounds=ROUNDS,
        name="unet",
    )


def _pictures(norm: type[nn.Module]) -> Scenario:
    """Fashion-MNIST over 10 clients, two convolutions of stride 2."""

    def normalised(channels: int) -> nn.Module:
        return norm(4, channels) if norm is nn.GroupNorm else norm(channels)

    source = images("fashion-mnist")
    return Scenario(
        model=nn.Sequential(
            nn.Conv2d(1, 16, 5, 2, 2), normalised(16), nn.ReLU(),
            nn.Conv2d(16, 32, 5, 2, 2), normalised(32), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 49, 10),
        ),
        loss=cross_entropy,
        clients=[records[torch.arange(600)] for records in source.records],
        test=source.test_records[torch.arange(2000)],
        local_training=TRAINING,
        server_lr=0.3,
        rounds=ROUNDS,
        name=f"fashion-mnist, {norm.__name__}",
    )  # fmt: skip


def group_norm() -> Scenario:
    return _pictures(nn.GroupNorm)


def batch_norm() -> Scenario:
    return _pictures(nn.BatchNorm2d)


NAMES = ("lstm", "gru", "gpt", "adapters", "unet", "group_norm", "batch_norm")


def tuned(name: str, workers: int) -> str:
    """A row: seconds until `trilemma tune` has an answer and until it ends, and what it says."""
    own = f"benchmarks.model_scenarios:{name}"
    with tempfile.TemporaryDirectory() as folder:
        verdict, begun = Path(folder) / "run" / "verdict.json", time.monotonic()
        program = str(Path(sys.executable).with_name("trilemma"))  # of this Python
        command = ["tune", "--scenario", own, "--workers", str(workers), "--out", folder + "/run"]
        said = Path(folder) / "said"
        with said.open("w") as told:
            run = subprocess.Popen([program, *command], stdout=told, stderr=told)
            while run.poll() is None and not verdict.exists():
                time.sleep(0.2)
            answered = time.monotonic() - begun
            if run.wait():
                raise RuntimeError(said.read_text())
        made = json.loads(verdict.read_text())
        chosen = next(item for item in made["candidates"] if item["name"] == made["chosen"])
        costs = chosen["costs"]
        best = costs["best_unprotected_metric"] or costs["unprotected_metric"]
        return (
            f"| {name} | {answered:.0f} | {time.monotonic() - begun:.0f} | {made['basis']} "
            f"| {made['chosen']} | {best:.3g} → {costs['protected_metric']:.3g} |"
        )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, epilog=PAGE)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("names", nargs="*", default=NAMES)
    given = asked.parse_args()
    print("| model | answered after s | ended after s | basis | protection | metric |")
    print("|---|---|---|---|---|---|")
    for name in given.names:
        print(tuned(name, given.workers), flush=True)


if __name__ == "__main__":
    main()
