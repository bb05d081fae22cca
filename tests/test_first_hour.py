"""What docs/first-hour.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from tests.tuning.simulating import simulate
from transformers import GPT2Config, GPT2LMHeadModel
from typer.main import get_command

from trilemma.cli.main import app

PAGE = (Path(__file__).parents[1] / "docs" / "first-hour.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
LINES = re.findall(r"^\$ trilemma (.*)$", PAGE, flags=re.MULTILINE)


def test_its_python_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The attacks are simulated: what is shown is how to ask."""
    simulate(monkeypatch)
    names: dict[str, Any] = {"__name__": "__main__"}
    scenario, adapters, question = PYTHON
    exec(compile(scenario, "first-hour.md", "exec"), names)
    assert len(names["make_scenario"]().records) == 4
    exec(compile(adapters, "first-hour.md", "exec"), names)
    config = GPT2Config(vocab_size=9, n_positions=5, n_embd=8, n_layer=1, n_head=1)
    config.bos_token_id = config.eos_token_id = None
    tokens = torch.arange(10).reshape(2, 5) % 9
    body = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    adapted = names["adapted"](body)
    adapted_loss = names["next_token"](adapted(tokens).logits, tokens)
    adapted_loss.backward()
    assert {name for name, item in adapted.named_parameters() if item.grad is not None} == {
        name for name, _ in adapted.named_parameters() if "lora_" in name
    }
    exec(compile(question, "first-hour.md", "exec"), names)
    assert capsys.readouterr().out.startswith("Verdict(use noise of variance ")


@pytest.mark.parametrize("line", LINES)
def test_its_commands_are_understood(line: str) -> None:
    import shlex

    name, *words = shlex.split(line, comments=True)
    commands: Any = get_command(app)
    commands.commands[name].make_context(name, words)


def test_there_is_something_to_learn_in_its_example() -> None:
    """A logistic regression of scikit-learn beats the better constant by ten points."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(PYTHON[0], "first-hour.md", "exec"), names)
    scenario = names["make_scenario"]()
    learnt, test = scenario.pooled(), scenario.test_records
    fitted = LogisticRegression().fit(learnt.inputs.numpy(), learnt.labels.numpy())
    share = float(test.labels.float().mean())
    assert fitted.score(test.inputs.numpy(), test.labels.numpy()) > max(share, 1 - share) + 0.1
