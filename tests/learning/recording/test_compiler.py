"""In processes of their own: what a process has imported cannot be taken back."""

import subprocess
import sys

import pytest

_BEGINS = "import sys, torch; import trilemma.learning; from torch.func import grad, vmap; "
_READ = "'torch._dynamo' in sys.modules"
_UNIT = "grad(lambda x: (x * x).sum())(torch.ones(2)).tolist()"


def told(*lines: str) -> list[str]:
    script = _BEGINS + "\n" + "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_slopes_do_not_read_the_compiler() -> None:
    assert told(f"print({_UNIT}, {_READ})") == ["[2.0, 2.0] False"]


@pytest.mark.parametrize(
    "use",
    [
        "import torch._dynamo as there; there.config",
        "torch._dynamo.config",
        "torch.compiler.reset()",
        "torch._dynamo.compiled_autograd.compiled_autograd_enabled",
        "torch._dynamo.anything = 1; assert sys.modules['torch._dynamo'].anything == 1",
        "assert 'config' in dir(torch._dynamo)",
    ],
)
def test_whoever_uses_it_gets_the_real_one(use: str) -> None:
    lines = (f"{_UNIT}", use, f"print({_READ}, torch._dynamo is sys.modules['torch._dynamo'])")
    assert told(*lines, f"print({_UNIT})") == ["True True", "[2.0, 2.0]"]


def test_what_stands_for_it_is_a_module_and_keeps_autograd_out() -> None:
    lines = (
        "import inspect",
        "kept = torch._dynamo.compiled_autograd",
        "assert inspect.ismodule(torch._dynamo) and inspect.ismodule(kept)",
        "with kept._disable(): pass",
        f"print({_READ})",
        "import torch._dynamo",
        "with kept._disable(): pass",
        "real = sys.modules['torch._dynamo.compiled_autograd']",
        "print(type(kept._disable()) is type(real._disable()))",
    )
    assert told(*lines) == ["False", "True"]


def test_a_compiled_model_is_not_compiled_anew_within_a_mode() -> None:
    lines = (
        "import torch.nn as nn",
        "from trilemma import Scenario",
        "from trilemma.federation.recipe import Recipe",
        "from trilemma.federation.training import train",
        "from trilemma.protections.protection import Protection",
        "model = torch.compile(nn.Linear(4, 3), backend='eager', fullgraph=True)",
        "torch._dynamo.config.error_on_recompile = True",
        "x, y = torch.rand(80, 4), torch.arange(80) % 3",
        "clients = [(x[i::8], y[i::8]) for i in range(8)]",
        "made = Scenario(model, nn.functional.cross_entropy, clients=clients, test=(x, y))",
        "recipe = Recipe(made.local_training, rounds=2)",
        "print(len(train(made, Protection(), recipe)[0].rounds))",
    )
    assert told(*lines) == ["2"]


def test_a_compiler_that_is_there_stays() -> None:
    script = "import torch, torch._dynamo as there; import trilemma.learning; "
    script += "assert torch._dynamo is there"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_recording_does_not_read_it() -> None:
    lines = (
        "from trilemma.scenarios import load_scenario",
        "from trilemma.estimation.bench import Bench",
        "from trilemma.estimation.jobs import AttackJob",
        "from trilemma.observations import Adversary",
        "task = AttackJob('here', 'none', ('dlg',), Adversary.SERVER, 1, 0, 2)",
        "Bench(load_scenario('digits', batch=1), None, 1, 2, 0)()(task)",
        f"print({_READ})",
    )
    assert told(*lines) == ["False"]
