"""Small verdicts on digits: 2,410 parameters, few rounds."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.learning import LocalTraining
from trilemma.scenarios.digits import digits

FIXED_POINT = "clip_range=4.0,precision_bits=20,max_weight=2000"
QUIET = "randomization:variance=1e-12"  # so that a model can be computed by hand
SINGLE = "randomization:variance=1e-6"
SUMMED = f"{SINGLE}+secret-sharing:{FIXED_POINT}"
FULL = LocalTraining(
    "fedsgd", lr=0.1, batch=375, records=469, record_clip=1.0, sampling="full"
)  # each of four clients has 375 digits, and room for a quarter more


def deployment(**changed: Any) -> Deployment:
    """Four clients, three rounds, every record in each."""
    own = Deployment(
        FULL, 2410, 4, 4, 3, rounds=3, helpers=1, server=ServerTraining(8.0, decay=True)
    )
    return replace(own, **changed)


def verdict_file(path: Path, protection: str, **changed: Any) -> Path:
    """A verdict of that deployment in a file."""
    document = {
        "schema_version": 4,
        "protection": protection,
        "basis": "certified",
        "deployment": asdict(deployment(**changed)),
        "source": {"scenario": "digits", "clients": 4},
    }
    path.write_text(json.dumps(document))
    return path


def by_hand(rounds: int) -> torch.nn.Module:
    """The model after so many rounds of it: clipped gradients of all records, one by one."""
    scenario, own = digits(clients=4), deployment()
    torch.manual_seed(0)
    model = scenario.model
    assert scenario.initialise is not None
    scenario.initialise(model)
    for step in (8.0 * (1 - done / rounds) for done in range(rounds)):
        moved = [torch.zeros_like(values) for values in model.parameters()]
        for part in scenario.records:
            for inputs, label in zip(part.inputs, part.labels, strict=True):
                model.zero_grad()
                cross_entropy(model(inputs[None]), label[None]).backward()  # type: ignore[no-untyped-call]
                gradients = [values.grad for values in model.parameters()]
                norm = torch.sqrt(sum((item**2).sum() for item in gradients))  # type: ignore[operator, misc, arg-type]
                scale = min(1.0, 1.0 / float(norm)) / FULL.batch / own.clients
                for total, gradient in zip(moved, gradients, strict=True):
                    total += scale * gradient  # type: ignore[operator]
        with torch.no_grad():
            for values, total in zip(model.parameters(), moved, strict=True):
                values.sub_(step * total)
    return model
