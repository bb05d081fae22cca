"""A GPT-2 of random weights whose LoRA adapters are trained, as transformers and peft make it."""

from __future__ import annotations

import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from trilemma import Scenario
from trilemma.learning import LocalTraining

TOKENS, LENGTH = 64, 8


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The mean loss of all tokens but the first, each given those before."""
    return cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def texts(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens that rise by one, two or three; they are their own labels."""
    draw = torch.Generator().manual_seed(seed)
    start = torch.randint(TOKENS, (count, 1), generator=draw)
    rise = torch.randint(1, 4, (count, 1), generator=draw)
    tokens = (start + rise * torch.arange(LENGTH)) % TOKENS
    return tokens, tokens


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=TOKENS,
        n_positions=LENGTH,
        n_embd=128,
        n_layer=2,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    lora = LoraConfig(
        r=4,
        target_modules=["c_attn"],
        fan_in_fan_out=True,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    body = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    return get_peft_model(body, lora)


def scenario() -> Scenario:
    return Scenario(
        network(),
        next_token,
        clients=[texts(32, client) for client in range(4)],
        test=texts(64, 9),
        local_training=LocalTraining(batch=2, lr=0.5),
        rounds=4,
        name="adapters",
    )
