"""Memory that games with adapters take, by the size of the adapters and of the frozen body."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

import torch
from torch import nn

from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.games import Arena
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary

PAGE = "docs/benchmarks/models.md"  # where the figures stand
FEW, MANY, CANDIDATES = 2, 10, 8  # games of a task


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def scenario(inner: int, rank: int) -> Scenario:
    """A GPT-2 of 2 layers x 128, its frozen MLPs `inner` wide, with adapters of a rank."""
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64, n_positions=16, n_embd=128, n_layer=2, n_head=4, n_inner=inner,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    adapters = LoraConfig(r=rank, target_modules=["c_attn"], fan_in_fan_out=True)
    body = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    draw = torch.Generator().manual_seed(0)
    clients = [(torch.randint(64, (60, 16), generator=draw), None) for _ in range(3)]
    training = LocalTraining(batch=4, lr=0.5)
    return Scenario(get_peft_model(body, adapters), next_token, clients, clients[0], training)


def measured(inner: int, rank: int) -> dict[str, float]:
    """MiB that games add to the most that the process held, a game; parameters."""
    torch.set_num_threads(1)
    made = scenario(inner, rank)
    claim = Arena.of(made, rounds=1, candidates=CANDIDATES).claim
    work = JobRunner(made, claim, 1, 0, 0, "candidates")()

    def held(games: int) -> float:
        posterior = ("gaussian-posterior",)
        job = AttackJob("games", "none", posterior, Adversary.SERVER, 1, 0, games)
        work(job)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    held(FEW)  # what is done once: imports, recordings
    few, many = held(FEW), held(MANY)
    parameters = sum(item.numel() for item in made.task.model.parameters())
    size = made.task.layout.size
    return {
        "a game": (many - few) / (MANY - FEW),
        "body": parameters - size,
        "adapters": size,
        "all": many,
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, epilog=PAGE)
    asked.add_argument("--one", nargs=2, type=int, metavar=("INNER", "RANK"))
    if (one := asked.parse_args().one) is not None:
        print(json.dumps(measured(*one)))
        return
    print("| frozen body | adapters | MiB a game | MiB of the process |\n|---|---|---|---|")
    for inner, rank in ((512, 8), (2816, 8), (512, 64), (2816, 64)):
        command = [sys.executable, __file__, "--one", str(inner), str(rank)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(said.splitlines()[-1])
        print(
            f"| {found['body']:,.0f} | {found['adapters']:,.0f} | {found['a game']:.2f} "
            f"| {found['all']:.0f} |"
        )


if __name__ == "__main__":
    main()
