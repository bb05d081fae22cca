from __future__ import annotations

import pytest
import torch
from tests.federation.small import costs_of, trained

from trilemma.game.prepared_models import fresh_weights
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.scenarios import load_scenario

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")

SPECS = (
    "none",
    "randomization:variance=1e-4",
    "compression:keep=0.2",
    "top-k:keep=0.2",
    "secret-sharing",
    "randomization:variance=1e-4+secret-sharing",
    "compression:keep=0.2+secret-sharing:clip_range=8.0",
)


@pytest.mark.parametrize("protection", [*map(parse_protection, SPECS), Protection((), Paillier())])
def test_a_federation_trains_on_the_gpu_as_on_the_cpu(protection: Protection) -> None:
    found = {}
    start = fresh_weights(load_scenario("digits-mlp", clients=3), [0])[0]
    for device in ("cpu", "cuda"):
        scenario = load_scenario("digits-mlp", clients=3, device=device)
        history = trained(scenario, protection, rounds=4, weights=start.to(device))
        assert history.weights.device.type == device
        found[device] = history.weights.cpu()
    # float32 sums in another order, and top-k may tip a tie; far below a step of any protection
    torch.testing.assert_close(found["cuda"], found["cpu"], atol=2e-4, rtol=0)
    assert (found["cuda"] - start.cpu()).abs().max() > 1e-2


def test_records_that_count_one_by_one_do_so_on_the_gpu() -> None:
    found = {}
    start = fresh_weights(load_scenario("digits-mlp", clients=3), [0])[0]
    for device in ("cpu", "cuda"):
        scenario = load_scenario("digits-mlp", clients=3, device=device).with_local_training(
            record_clip=0.5, sampling="poisson"
        )
        found[device] = trained(scenario, rounds=4, weights=start.to(device)).weights.cpu()
    torch.testing.assert_close(found["cuda"], found["cpu"], atol=2e-4, rtol=0)


def test_rounds_are_timed_on_the_gpu() -> None:
    scenario = load_scenario("digits-mlp", clients=3, device="cuda")
    costs = costs_of(scenario, parse_protection("randomization:variance=1e-4"), rounds=2)
    assert costs.protected.train > 0
    assert costs.protected.protect > costs.unprotected.protect > 0
