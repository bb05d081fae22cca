import pytest
import torch

from trilemma.beliefs.recovery import Criterion
from trilemma.estimation.recovering.recoveries import measure
from trilemma.estimation.recovering.units import Measurement
from trilemma.protections.specs import parse_protection
from trilemma.scenarios import load_scenario

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def test_a_scenario_runs_on_the_gpu_and_recovers_the_same() -> None:
    rates = {}
    for device in ("cpu", "cuda"):
        scenario = load_scenario("digits-mlp", clients=2, batch=1, device=device)
        asked = Measurement(
            units=16, restarts=2, protection=parse_protection("randomization:variance=4.0")
        )
        protected, control = measure(scenario, asked, Criterion())
        assert protected is not None
        rates[device] = (control.tagged().mean(), protected.tagged().mean())
    assert rates["cuda"] == rates["cpu"] == (1.0, 0.0)
