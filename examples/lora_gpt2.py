"""LoRA of rank 8 on GPT-2 as it is published (12 layers x 768, 124 million frozen numbers).

With a GPU, from this folder:

    trilemma tune --scenario lora_gpt2:texts --device cuda --workers 2 --out runs/lora

The body has random weights, so that nothing is downloaded: put `from_pretrained` in its place.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from trilemma import LocalTraining, Scenario

WORDS, LENGTH = 256, 64  # that occur, of the 50,257 that the body knows; tokens of a text


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The mean loss of each token, given those before it."""
    return cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def records(count: int, seed: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Texts [n, 64] in which each word has three likely successors, and what is to be said."""
    draw = torch.Generator().manual_seed(seed)
    text = torch.randint(WORDS, (count, 1), generator=draw)
    for _ in range(LENGTH - 1):
        follows = (7 * text[:, -1:] + torch.randint(3, (count, 1), generator=draw)) % WORDS
        text = torch.cat([text, follows], 1)
    return {"input_ids": text, "attention_mask": torch.ones_like(text)}, text


def texts(clients: int = 10, layers: int = 12, width: int = 768) -> Scenario:
    """80 texts a client, and 80 others to judge by; 30 rounds."""
    torch.manual_seed(0)
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=width // 64)
    body: Any = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    lora = LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)
    return Scenario(
        model=get_peft_model(body, lora),
        loss=next_token,
        clients=[records(80, seed) for seed in range(clients)],
        test=records(80, 99),
        local_training=LocalTraining("fedsgd", lr=8.0, batch=8),
        name="lora-gpt2",
        rounds=30,
    )
