"""Settings: flags come from the request and win over the file; the command that repeats them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from trilemma.cli.configuration import read_settings
from trilemma.cli.main import app
from trilemma.errors import InvalidInput, UnknownName
from trilemma.observations import Adversary
from trilemma.settings import Federated, Searched, command_line
from trilemma.tuning.request import KNOWLEDGE, NOT_OF_A_FRONT, Request

COMMANDS: Any = typer.main.get_command(app)
BESIDES = {"settings", "workers", "ray", "out", "fresh", "as_json", "full", "storage", "help"}


def parsed(words: list[str], command: str = "tune", *models: Any) -> tuple[Any, ...]:
    """The values that a command with these words runs."""
    context = COMMANDS.commands[command].make_context(command, list(words))
    file = context.params["settings"]
    kinds = models or (Federated, Request)
    return read_settings(None if file is None else Path(file), context.params, *kinds)[:-1]


def flags(command: str) -> set[str]:
    return {param.name for param in COMMANDS.commands[command].params} - BESIDES


def test_every_flag_is_a_setting_and_every_setting_a_flag() -> None:
    both = {*Federated.model_fields, *Request.model_fields}
    assert flags("tune") == {*both, "quick", "thorough"} - {"preset"}
    assert flags("check") == flags("tune")
    assert flags("pareto") == {*both, *Searched.model_fields} - {*NOT_OF_A_FRONT}


def test_the_help_of_a_flag_is_that_of_its_setting() -> None:
    helps = {param.name: param.help for param in COMMANDS.commands["tune"].params}
    for model in (Federated, Request):
        for name, field in model.model_fields.items():
            if name == "preset":
                continue  # its choices are flags
            assert helps[name].startswith(field.description)
    assert helps["adversary"].endswith("[server]")
    assert helps["budget"].endswith("[0.3]")


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text('budget = 0.5\nfamilies = ["compression"]\nutility_weight = [1.0, 2.0]\n')
    federated, found = parsed([str(path), "--budget", "0.2", "--clients", "3"])
    assert (found.budget, found.families, found.seed) == (0.2, ("compression",), 0)
    assert found.utility_weight == (1.0, 2.0)
    assert federated == Federated(clients=3)


def test_the_file_in_the_folder_is_read_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parsed([]) == (Federated(), Request())
    (tmp_path / "trilemma.toml").write_text('adversary = "client"\nscenario = "mnist"\n')
    assert parsed([]) == (Federated(scenario="mnist"), Request(adversary="client"))


def test_one_file_serves_every_command(tmp_path: Path) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text("budget = 0.2\nevaluations = 9\nclients = 3\n")
    assert parsed([str(path)]) == (Federated(clients=3), Request(budget=0.2))
    both = (Federated, Request, Searched)
    assert parsed([str(path)], "pareto", *both)[2] == Searched(evaluations=9)


def test_a_text_is_the_value_that_it_means() -> None:
    """A string that were not coerced would be neither the server nor the client."""
    _, found = parsed(["--adversary", "client", "--families", "a, b", "--utility-weight", "1,2"])
    assert found.adversary is Adversary.CLIENT
    assert found.families == ("a", "b")
    assert found.utility_weight == (1.0, 2.0)


def test_a_preset_gives_defaults_that_any_setting_beats(tmp_path: Path) -> None:
    _, found = parsed(["--quick", "--seeds", "4"])
    assert found == Request(preset="quick", seeds=4)
    assert (found.claim, found.confidence, found.seeds) == ("one-round", 0.9, 4)
    assert found.families is not None
    assert len(found.families) == 3
    path = tmp_path / "trilemma.toml"
    path.write_text('preset = "thorough"\nrestarts = 2\n')
    _, found = parsed([str(path)])
    assert (found.preset, found.confidence, found.restarts) == ("thorough", 0.99, 2)
    assert parsed([str(path), "--quick"])[1].preset == "quick"
    with pytest.raises(InvalidInput, match="--quick and --thorough exclude each other"):
        parsed(["--quick", "--thorough"])
    for words in (["--quick", "--confidence", "0.95"], ["--thorough"], ["--quick"]):
        _, _, *said = shlex.split(command_line("tune", *parsed(words)))
        assert parsed(said) == parsed(words)


def test_a_rate_or_a_leakage_but_not_both(tmp_path: Path) -> None:
    assert parsed(["--at-most", "1 in 8"])[1].at_most == 0.125
    with pytest.raises(InvalidInput, match="give a budget or at_most, not both"):
        parsed(["--at-most", "1 in 8", "--budget", "0.2"])
    path = tmp_path / "trilemma.toml"
    path.write_text('budget = 0.2\nat_most = "25 %"\n')
    with pytest.raises(InvalidInput, match="not both"):
        parsed([str(path)])
    path.write_text("budget = 0.2\n")
    _, found = parsed([str(path), "--at-most", "25 %"])
    assert (found.at_most, found.budget) == (0.25, 0.3), "a flag wins over the file"
    assert "--budget" not in command_line("tune", found)


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("budgett = 1", UnknownName, r"'budgett' \(did you mean 'budget'\?\)"),
        ("budget = 'much'", InvalidInput, "budget"),
        ("budget = inf", InvalidInput, "budget"),
        ("adversary = 'moon'", InvalidInput, "adversary"),
        ("clients = 'many'", InvalidInput, "clients .the setting in .* is 'many'"),
        ("budget = ", InvalidInput, "not valid TOML"),
        ("budget = 0.3\x00", InvalidInput, "not valid TOML"),
        ("[budget]\nx = 1", InvalidInput, "budget"),
    ],
)
def test_bad_settings(tmp_path: Path, text: str, kind: type[Exception], sentence: str) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text(text)
    with pytest.raises(kind, match=sentence) as error:
        parsed([str(path)])
    assert "\n" not in str(error.value)
    with pytest.raises(InvalidInput, match="cannot read"):
        parsed([str(tmp_path / "none.toml")])


FEDERATED = st.builds(
    Federated,
    scenario=st.sampled_from(["digits", "my module:make"]),
    data=st.none() | st.just("a folder/it's"),
    clients=st.none() | st.integers(1, 9),
    batch=st.none() | st.integers(1, 9),
    alpha=st.none() | st.floats(0.1, 9),
    device=st.none() | st.just("cpu"),
)
WEIGHTS = st.floats(0, 9) | st.lists(st.floats(0, 9), min_size=2, max_size=3).map(tuple)
REQUESTS = st.builds(
    Request,
    budget=st.floats(0.01, 0.99),
    knows=st.sampled_from(KNOWLEDGE),
    claim=st.sampled_from(["training", "one-round"]),
    rounds=st.none() | st.integers(1, 99),
    candidates=st.none() | st.integers(2, 99),
    participation=st.none() | st.just("known"),  # secret is for knows="anyone" alone
    families=st.none() | st.just(("paillier", "randomization+secret-sharing")),
    attacks=st.none() | st.just(("dlg",)),
    adversary=st.sampled_from(Adversary),
    confidence=st.floats(0.5, 0.99),
    utility_weight=WEIGHTS,
    efficiency_weight=WEIGHTS,
    max_utility_loss=st.none() | st.floats(-1, 1),
    max_cost=st.none() | st.floats(-1, 99),
    bandwidth=st.floats(1, 1e12),
    threshold=st.none() | st.integers(1, 9),
    helpers=st.none() | st.integers(0, 9),
    person=st.integers(1, 9),
    restarts=st.integers(1, 9),
    steps=st.integers(0, 99),
    seeds=st.integers(2, 9),
    strengths=st.sampled_from([0, 2, 6]),
    seed=st.integers(0, 2**40),
)


@settings(deadline=None)
@given(FEDERATED, REQUESTS)
def test_the_command_that_repeats_gives_the_same_values(
    federated: Federated, request: Request
) -> None:
    program, command, *words = shlex.split(command_line("tune", federated, request))
    assert (program, command) == ("trilemma", "tune")
    assert parsed(words) == (federated, request)


def test_what_goes_to_the_scenario() -> None:
    assert Federated(data="here", clients=3).options() == {"folder": "here", "clients": 3}
    assert Federated().options() == {}


@pytest.mark.parametrize(
    "value",
    [
        *("[" * 20_000 + "]" * 20_000, "{a=" * 9_000, "9" * 5_000, "0x" + "f" * 9_000),
        *("[0x" + "f" * 9_000 + "]", '"\\u001b[31m"', "1e999", "-nan", '"1e999"', "true", "[]"),
    ],
)
@pytest.mark.parametrize("name", ["budget", "clients", "utility_weight", "seed", "max_cost"])
def test_no_value_breaks_the_reading(tmp_path: Path, name: str, value: str) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text(f"{name} = {value}\n")
    with pytest.raises(InvalidInput) as error:
        parsed([str(path)])
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('families = ["a,b", " c "]', ["--families", "a,b,c"]),
        ("utility_weight = [2.0]", ["--utility-weight", "2.0"]),
    ],
)
def test_what_a_file_says_can_be_said_by_flags(
    tmp_path: Path, line: str, words: list[str]
) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text(f"{line}\n")
    found = parsed([str(path)])
    assert shlex.split(command_line("tune", *found))[2:] == words
    assert parsed(words) == found


@pytest.mark.parametrize("line", ['families = [""]', 'clients = "3"', "batch=true"])
def test_a_text_is_no_number_and_no_name_is_empty(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trilemma.toml"
    path.write_text(f"{line}\n")
    with pytest.raises(InvalidInput, match=r"needed|at least one"):
        parsed([str(path)])
