"""NVFlare's simulator, with what `trilemma deploy` writes and the lines of docs/nvflare.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.deployment.verdicts import QUIET, by_hand, verdict_file

pytest.importorskip("nvflare", reason="needs the extra `nvflare`: pip install 'trilemma[nvflare]'")

from trilemma import api
from trilemma.deployment.nodes.ledger import Ledger

ROOT = Path(__file__).parents[3]


def simulated(job: Path) -> tuple[int, str]:
    """How `python job.py` ends in the simulator, and what it says."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "WORK": str(job / "work"),
    }
    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=job,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=580,
        check=False,
    )
    logs = [path.read_text(errors="replace") for path in sorted(job.glob("work/*/site-*/log.txt"))]
    return done.returncode, done.stdout + "".join(logs)


@pytest.mark.slow
def test_a_single_message_verdict_trains_the_model_of_its_own_rounds(tmp_path: Path) -> None:
    job = tmp_path / "job"
    api.deploy(verdict_file(tmp_path / "verdict.json", QUIET), nvflare=job)
    code, said = simulated(job)
    assert code == 0, said[-4000:]
    (saved,) = job.glob("work/**/FL_global_model.pt")
    model = torch.load(saved, weights_only=False)["model"]
    for name, expected in by_hand(3).state_dict().items():
        made = torch.as_tensor(model[f"network.{name}"])
        torch.testing.assert_close(made, expected, atol=1e-4, rtol=0)
    for site in range(1, 5):
        (event,) = Ledger(job / "ledger.json").events(f"site-{site}")
        assert (event.rounds, event.level) == (3, "record")
    again, said = simulated(job)
    assert again != 0, "no rounds are left"
    assert "the data took part in 3 rounds, and the node's policy allows 3" in said
    assert re.search("TASK_DATA_FILTER_ERROR", said), "the server is told a code"
    assert Ledger(job / "ledger.json").events("site-1")[0].rounds == 3


@pytest.mark.slow
def test_a_job_that_leaves_protection_out_is_refused(tmp_path: Path) -> None:
    """It trains by itself and sends whole models, as NVFlare's recipe does by default."""
    job = tmp_path / "job"
    api.deploy(verdict_file(tmp_path / "verdict.json", QUIET), nvflare=job)
    script = job / "client.py"
    before = "    flare.send(local_update(model, loss, own))\n"
    after = "    flare.send(flare.FLModel(params=model.state_dict()))\n"
    assert before in script.read_text()
    script.write_text(script.read_text().replace(before, after))
    recipe = """from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe as plain

def verdict_recipe(verdict, **settings):
    return plain(min_clients=4, num_rounds=1, **settings)
"""
    text = (job / "job.py").read_text()
    line = "from trilemma.deployment.nvflare import verdict_recipe\n"
    assert line in text
    (job / "job.py").write_text(text.replace(line, recipe))
    code, said = simulated(job)
    assert code != 0
    assert "the payload is of kind WEIGHTS, and only WEIGHT_DIFF passes" in said
    assert "TASK_RESULT_FILTER_ERROR" in said
    assert not list(job.glob("work/**/FL_global_model.pt"))
