import pytest
import torch

from trilemma.beliefs.recovery import Criterion
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.recovering.recoveries import measure
from trilemma.game.recovering.units import Measurement
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
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
        rates[device] = (control.target().mean(), protected.target().mean())
    assert rates["cuda"] == rates["cpu"] == (1.0, 0.0)


def test_trainings_on_the_gpu_are_those_of_the_cpu() -> None:
    """The same draws: what differs after 20 rounds is rounding."""
    noise = parse_protection("randomization:variance=0.01+secret-sharing")
    seen = []
    for device in ("cpu", "cuda"):
        arena = Arena.of(load_scenario("digits", device=device), rounds=20)
        observer = Observer(arena, noise, Adversary.SERVER, "candidates", 0)
        games = observer.views([arena.draw(number, 0) for number in range(8)])
        seen.append([view.observation.update.cpu() for views in games for view in views])
    assert len(seen[0]) == len(seen[1]) > 0
    for here, there in zip(*seen, strict=True):
        assert float((here - there).abs().max()) < 1e-4
