"""`trilemma deploy`: what it writes runs as it is, and what differs is found field by field."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.deployment.verdicts import QUIET, SINGLE, SUMMED, deployment, verdict_file
from typer.testing import CliRunner

from trilemma import api
from trilemma.cli.main import app as cli
from trilemma.deployment.nodes.verdict_terms import from_verdict
from trilemma.deployment.policy import Policy, digest_of
from trilemma.deployment.writing import FILTERS, joined_scopes
from trilemma.errors import InvalidInput

ROOT = Path(__file__).parents[2]


@pytest.fixture
def verdict(tmp_path: Path) -> Path:
    return verdict_file(tmp_path / "verdict.json", SUMMED)


@pytest.fixture
def single(tmp_path: Path) -> Path:
    return verdict_file(tmp_path / "single.json", SINGLE)


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))


def test_a_flower_app_is_what_the_verdict_says(verdict: Path, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs the extra `flower`")
    written = api.deploy(verdict, flower=tmp_path / "app")
    assert written.verdict == digest_of(verdict.read_bytes())
    assert all(path.is_file() for path in written.files)
    before = set(sys.modules)
    assert api.deploy(verdict, check=tmp_path / "app").differences == ()
    assert not [name for name in set(sys.modules) - before if "protected_app" in name]


def test_the_policy_that_is_written_takes_the_verdict_and_no_other(
    verdict: Path, tmp_path: Path
) -> None:
    api.deploy(verdict, flower=tmp_path / "app")
    policy = Policy.load(tmp_path / "app" / "trilemma-policy.toml")
    policy.require(from_verdict(verdict, deployment()))
    policy.require_cohort(4, 3)
    assert policy.rounds == 3


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_flower_builds_the_app_as_its_hub_asks(verdict: Path, tmp_path: Path) -> None:
    """By Flower's own check of formats, and by its limits; the example as well."""
    pytest.importorskip("flwr", reason="needs the extra `flower`")
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.config import get_fab_config, get_metadata_from_config

    api.deploy(verdict, flower=tmp_path / "app")
    for folder in (tmp_path / "app", ROOT / "examples" / "flower-digits"):
        fab = build_fab_from_disk(folder)
        assert get_metadata_from_config(get_fab_config(fab))
        assert get_fab_config(fab)["tool"]["flwr"]["app"]["fab-format-version"] == 1
        assert len(fab) < 10 * 2**20
        assert all(path.stat().st_size < 2**20 for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("file", "old", "new", "field"),
    [
        ("terms.py", "clients=4", "clients=5", "terms"),
        ("client_app.py", "ClientApp(mods=[protect_mod(terms)])", "ClientApp()", "mods"),
        ("client_app.py", "[protect_mod(terms)]", "[print, protect_mod(terms)]", "mods"),
        ("client_app.py", "protect_mod(terms)", "protect_mod('none')", "protection"),
        ("../pyproject.toml", "rounds = 3", "rounds = 4", "run config, rounds"),
    ],
)
def test_an_app_that_differs_is_told_by_field(
    verdict: Path, tmp_path: Path, file: str, old: str, new: str, field: str
) -> None:
    pytest.importorskip("flwr", reason="needs the extra `flower`")
    api.deploy(verdict, flower=tmp_path / "app")
    changed(tmp_path / "app" / "protected_app" / file, old, new)
    done = CliRunner().invoke(cli, ["deploy", str(verdict), "--check", str(tmp_path / "app")])
    assert done.exit_code == 1
    assert f"{field}: " in done.stdout
    document = json.loads(
        CliRunner()
        .invoke(cli, ["deploy", str(verdict), "--json", "--check", str(tmp_path / "app")])
        .stdout
    )
    assert field in {difference["field"] for difference in document["differences"]}


def test_an_app_of_another_verdict_differs_in_its_fields(verdict: Path, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs the extra `flower`")
    api.deploy(verdict, flower=tmp_path / "app")
    other = verdict_file(tmp_path / "other.json", SUMMED, rounds=9)
    differences = {
        part.field: part for part in api.deploy(other, check=tmp_path / "app").differences
    }
    assert set(differences) == {"verdict", "rounds", "run config, rounds"}
    assert (differences["rounds"].verdict, differences["rounds"].app) == ("9", "3")


def test_the_documents_have_their_schema(verdict: Path, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "deploy.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    written = api.deploy(verdict, flower=tmp_path / "app")
    jsonschema.validate(written.as_json(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written.as_json(), "files": 3}, schema)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "one of --flower, --nvflare and --check"),
        ({"flower": "a", "nvflare": "b"}, "got 2 of them"),
        ({"check": "empty"}, "holds no Flower app"),
        ({"nvflare": "job"}, "secret-sharing needs secure aggregation"),
    ],
)
def test_a_mistake_is_one_sentence(
    verdict: Path, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    given = {name: tmp_path / folder for name, folder in settings.items()}
    with pytest.raises(InvalidInput, match=said):
        api.deploy(verdict, **given)


def test_nothing_is_overwritten(single: Path, tmp_path: Path) -> None:
    api.deploy(single, nvflare=tmp_path / "job")
    with pytest.raises(InvalidInput, match="is there already"):
        api.deploy(single, nvflare=tmp_path / "job")


def test_a_verdict_made_in_python_needs_the_name_of_its_scenario(
    single: Path, tmp_path: Path
) -> None:
    document = json.loads(single.read_text())
    single.write_text(json.dumps({**document, "source": {}}))
    with pytest.raises(InvalidInput, match="name it with --scenario"):
        api.deploy(single, nvflare=tmp_path / "job")
    api.deploy(single, nvflare=tmp_path / "job", scenario="my_module:make")
    assert 'load_scenario("my_module:make", **{})' in (tmp_path / "job" / "net.py").read_text()


def test_the_filters_come_first_in_every_scope_and_once(single: Path, tmp_path: Path) -> None:
    theirs = {"name": "PercentilePrivacy", "args": {}}
    site = {
        "scopes": [
            {"name": "public", "task_result_filters": [theirs]},
            {"name": "private", "properties": {"a": 1}},
        ],
        "default_scope": "private",
    }
    joined = joined_scopes(joined_scopes(site, {"verdict": "old.json"}), {"verdict": "new.json"})
    assert joined["default_scope"] == "private"
    assert [scope["name"] for scope in joined["scopes"]] == ["public", "private"]
    for scope in joined["scopes"]:
        (admit,) = scope["task_data_filters"]
        assert admit["args"] == {"verdict": "new.json"}
        assert scope["task_result_filters"][0]["path"].endswith(".ProtectUpdate")
    assert joined["scopes"][0]["task_result_filters"][1] == theirs
    assert len(joined["components"]) == 1
    (tmp_path / "privacy.json").write_text(json.dumps(site))
    api.deploy(single, nvflare=tmp_path / "job", scopes=tmp_path / "privacy.json")
    written = json.loads((tmp_path / "job" / "privacy.json").read_text())
    assert len(written["scopes"]) == 2


def exported(folder: Path, **changed: Any) -> Path:
    """A job as NVFlare exports it, with other arguments of FedAvg."""
    step = {"step": 8.0, "decay": True, "rounds": 3, "learning_rate": 0.1, "least": 3}
    path = "trilemma.deployment.nvflare.server_step.VerdictStep"
    fedavg = {"aggregator": {"path": path, "args": step}, "num_clients": 4, "num_rounds": 3}
    workflow = "nvflare.app_common.workflows.fedavg.FedAvg"
    train = {"execution_mode": "in_process", "params_transfer_type": "DIFF"}
    (folder / "config_fed_server.json").write_text(
        json.dumps({"workflows": [{"path": workflow, "args": {**fedavg, **changed}}]})
    )
    (folder / "config_fed_client.json").write_text(
        json.dumps({"executors": [{"tasks": ["*"], "executor": {"args": train}}]})
    )
    return folder


def test_an_exported_job_is_compared(single: Path, tmp_path: Path) -> None:
    (job := tmp_path / "job").mkdir()
    exported(job)
    api.deploy(single, nvflare=tmp_path / "site")
    scopes = (tmp_path / "site" / "privacy.json").read_text()
    (job / "privacy.json").write_text(scopes)
    assert api.deploy(single, check=job).differences == ()
    exported(job, num_rounds=4, aggregator=None)
    changed(job / "config_fed_client.json", "DIFF", "FULL")
    for filters in ("scopes", "components"):
        assert filters in scopes
    (job / "privacy.json").write_text(scopes.replace("ProtectUpdate", "Nothing"))
    differences = {part.field: part.app for part in api.deploy(single, check=job).differences}
    assert differences == {
        "rounds": "4",
        "aggregator": "None",
        "what sites send": "FULL",
        "scope 'trilemma', first task_result filter": (
            "trilemma.deployment.nvflare.site_filters.Nothing"
        ),
    }
    other = verdict_file(tmp_path / "other.json", QUIET)
    fields = {part.field for part in api.deploy(other, check=job).differences}
    assert "scope 'trilemma', verdict" in fields


@pytest.mark.slow
def test_what_nvflare_exports_is_what_the_verdict_says(single: Path, tmp_path: Path) -> None:
    pytest.importorskip("nvflare", reason="needs the extra `nvflare`")
    import torch

    from trilemma.deployment.nvflare import verdict_recipe

    (tmp_path / "train.py").write_text("")
    script = str(tmp_path / "train.py")
    recipe = verdict_recipe(single, name="job", model=torch.nn.Linear(3, 2), train_script=script)
    recipe.export(str(tmp_path / "exported"))
    assert api.deploy(single, check=tmp_path / "exported").differences == ()


def test_the_docs_show_the_script_that_is_written(single: Path, tmp_path: Path) -> None:
    api.deploy(single, nvflare=tmp_path / "job")
    script = (tmp_path / "job" / "client.py").read_text().partition("\n\n")[2]
    assert script in (ROOT / "docs" / "nvflare.md").read_text()


def test_the_policy_of_the_docs_can_be_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "flower.md").read_text()
    example = text.partition("```toml\nsmallest-cohort")[2].partition("```")[0]
    path = tmp_path / "trilemma-policy.toml"
    path.write_text("smallest-cohort" + example.replace("6b86...", "0" * 64))
    policy = Policy.load(path)
    assert (policy.smallest_cohort, policy.threshold, policy.rounds) == (10, 7, 150)
    assert policy.model_check == "refuse"


OWN = {"path": f"{FILTERS}.AdmitTask", "args": []}
SERVER: dict[str, Any] = {
    "workflows": [
        {"path": "nvflare.app_common.workflows.fedavg.FedAvg", "args": {"num_rounds": 3}}
    ]
}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("server", {"workflows": 3}),
        ("server", {"workflows": [{"path": SERVER["workflows"][0]["path"], "args": []}]}),
        ("client", {"executors": [{"executor": {"args": 3}}]}),
        ("client", []),
        ("privacy", {"scopes": [{"name": "a", "task_data_filters": 3}]}),
        ("privacy", {"scopes": [{"name": "a", "task_data_filters": [OWN]}]}),
    ],
)
def test_a_malformed_job_or_site_is_refused_in_a_sentence(
    single: Path, tmp_path: Path, name: str, document: Any
) -> None:
    job = tmp_path / "job"
    job.mkdir()
    files = {"server": SERVER, "client": {}, name: document}
    for file, content in files.items():
        path = "privacy.json" if file == "privacy" else f"config_fed_{file}.json"
        (job / path).write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"\.json"):
        api.deploy(single, check=job)
    if name == "privacy" and not isinstance(document["scopes"][0]["task_data_filters"], list):
        with pytest.raises(InvalidInput, match="must be a list of objects"):
            joined_scopes(document, {})


def test_an_app_that_fails_when_it_is_imported_is_told(verdict: Path, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs the extra `flower`")
    api.deploy(verdict, flower=tmp_path / "app")
    client = tmp_path / "app" / "protected_app" / "client_app.py"
    client.write_text("raise SystemError('no records here')\n")
    with pytest.raises(InvalidInput, match=r"cannot be imported \(no records here\)"):
        api.deploy(verdict, check=tmp_path / "app")
