"""What settings are read as, from texts and from files."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp, kstest
from tests.cli.own_scenario import small
from tests.protection.transforms.applying import apply
from torch import nn

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, UnknownName
from trilemma.protection.transforms.omission import Omission
from trilemma.protection.transforms.percentile import Percentile
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.audit.adaptive_clipping import AdaptiveRule, adaptive_norms
from trilemma.tuning.audit.flower_parts import LocalDpMod
from trilemma.tuning.audit.framework_parts import Opacus
from trilemma.tuning.audit.framework_setting import Setting
from trilemma.tuning.audit.nvflare_parts import ExcludeVars, PercentilePrivacy

LOCAL_DP = "flower.LocalDpMod:clipping_norm=1,sensitivity=0.0001,epsilon=10,delta=1e-05"
TEXTS = [
    "none",
    "randomization:variance=1e-3+secret-sharing",
    LOCAL_DP,
    "flower.fixedclipping_mod:clipping_norm=2",
    "flower.adaptiveclipping_mod:initial_clipping_norm=0.5",
    "flower.DifferentialPrivacyServerSideFixedClipping:noise_multiplier=1,clipping_norm=0.5",
    "flower.DifferentialPrivacyClientSideFixedClipping:noise_multiplier=1,clipping_norm=0.5",
    "flower.DifferentialPrivacyServerSideAdaptiveClipping:clip_norm_lr=0.1",
    "flower.DifferentialPrivacyClientSideAdaptiveClipping",
    "flower.SecAggPlus:num_shares=5,reconstruction_threshold=3",
    "nvflare.PercentilePrivacy:percentile=20,gamma=0.1",
    "nvflare.SVTPrivacy:fraction=0.2,replace=False,epsilon_release=3.0",
    "nvflare.ExcludeVars:exclude_vars=0.weight/2.bias",
    "opacus.PrivacyEngine:noise_multiplier=1.1,max_grad_norm=1.0",
    f"{LOCAL_DP}+flower.SecAggPlus",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_setting_is_read_back_as_it_is_described(text: str) -> None:
    setting = Setting.parse(text)
    assert Setting.parse(setting.describe()) == setting
    run = setting.run(small())
    assert run.sent.describe(), "and comes to something that a worker can read"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("flower.LocalDP:epsilon=1", "did you mean 'flower.LocalDpMod'"),
        ("flower.LocalDpMod:clipping_norm=1", "needs sensitivity, epsilon, delta"),
        (LOCAL_DP.replace("delta", "detla"), "did you mean 'delta'"),
        (LOCAL_DP.replace("=1,", "=one,"), "a number is needed"),
        (LOCAL_DP.replace("=1,", "=inf,"), "a finite number is needed"),
        (LOCAL_DP.replace("epsilon=10", "epsilon=0"), "epsilon"),
        (LOCAL_DP.replace("delta=1e-05", "delta=2"), "delta"),
        (f"{LOCAL_DP},delta=1", "twice"),
        ("nvflare.SVTPrivacy:fraction", "name=value"),
        ("nvflare.SVTPrivacy:fraction=0", "fraction"),
        ("nvflare.ExcludeVars:exclude_vars=(", "regular expression"),
        ("opacus.PrivacyEngine:noise_multiplier=0,max_grad_norm=1", "noise_multiplier"),
        ("flower.adaptiveclipping_mod:target_clipped_quantile=2", "target_clipped_quantile"),
        ("flower.SecAggPlus:num_shares=3,reconstruction_threshold=4", "reconstruction_threshold"),
        ("nosuch", "nosuch"),
        ("", "a setting is needed"),
        ("nowhere/app.toml", "no file"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(text: str, told: str) -> None:
    with pytest.raises((InvalidInput, UnknownName), match=told.replace("(", r"\(")):
        Setting.parse(text)


def test_local_dp_adds_the_noise_that_flower_adds() -> None:
    """Its deviation against Flower's own noise on many coordinates."""
    flower = pytest.importorskip("flwr.supercore.differential_privacy")
    params = pytest.importorskip("flwr.compat.common.parameter")
    np.random.seed(0)  # noqa: NPY002 - Flower draws from numpy's global generator
    zeros = params.ndarrays_to_parameters([np.zeros(200_000)])
    made = flower.add_localdp_gaussian_noise_to_params(zeros, 0.3, 2.0, 1e-4)
    (noise,) = params.parameters_to_ndarrays(made)
    part = LocalDpMod(clipping_norm=1.0, sensitivity=0.3, epsilon=2.0, delta=1e-4)
    assert part.deviation == pytest.approx(float(noise.std()), rel=4 / math.sqrt(2 * 200_000))
    (transform,) = part.transforms(small())
    assert transform == Randomization(part.deviation**2, 1.0)


def test_a_thousand_updates_are_distributed_as_flowers_local_dp_sends_them() -> None:
    """By Flower's own mod: what is left beside the clipped update is its noise."""
    mod = pytest.importorskip("flwr.clientapp.mod").LocalDpMod(0.7, 0.01, 3.0, 1e-4)
    flwr = pytest.importorskip("flwr.app")
    part = LocalDpMod(0.7, 0.01, 3.0, 1e-4)
    (transform,) = part.transforms(small())
    draw = np.random.default_rng(0)
    left: tuple[list[float], list[float]] = ([], [])
    np.random.seed(1)  # noqa: NPY002 - Flower draws from numpy's global generator
    for number in range(1000):
        start, update = draw.normal(size=20), draw.normal(size=20) * 10 ** draw.uniform(-2, 1)
        clipped = update * min(1.0, 0.7 / float(np.linalg.norm(update)))

        messages = [
            SimpleNamespace(
                content=flwr.RecordDict({"arrays": flwr.ArrayRecord({"w": flwr.Array(arrays)})}),
                has_error=lambda: False,
            )
            for arrays in (start, start + update)
        ]
        sent = mod(messages[0], None, lambda *_, sent=messages[1]: sent).content
        theirs = sent["arrays"]["w"].numpy() - start
        ours = apply(transform, torch.from_numpy(update), entropy=Seeded(number)).values.numpy()
        for found, made in zip(left, (theirs, ours), strict=True):
            found.extend((made - clipped) / part.deviation)
    assert ks_2samp(*left).pvalue > 1e-4
    for found in left:
        assert kstest(found, "norm").pvalue > 1e-4


def test_the_servers_noise_is_that_of_flowers_strategy() -> None:
    strategies = pytest.importorskip("flwr.serverapp.strategy")
    flwr = pytest.importorskip("flwr.app")
    np.random.seed(0)  # noqa: NPY002 - Flower draws from numpy's global generator
    own = strategies.DifferentialPrivacyServerSideFixedClipping(strategies.FedAvg(), 2.0, 0.5, 4)
    zeros = flwr.ArrayRecord({"w": flwr.Array(np.zeros(50_000))})
    theirs = own._add_noise_to_aggregated_arrays(zeros)["w"].numpy()
    name = "flower.DifferentialPrivacyServerSideFixedClipping"
    setting = Setting.parse(f"{name}:noise_multiplier=2,clipping_norm=0.5")
    (noise,) = setting.run(small(clients=4)).trained.transforms
    assert isinstance(noise, Randomization)
    assert kstest(theirs / (noise.scale / 2), "norm").pvalue > 1e-4, "of a mean of four"


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_adaptive_norms_move_as_flowers_strategy_moves_them(noise: float) -> None:
    strategies = pytest.importorskip("flwr.serverapp.strategy")
    own = strategies.DifferentialPrivacyServerSideAdaptiveClipping(
        strategies.FedAvg(), noise, 8, initial_clipping_norm=0.7, clipped_count_stddev=0.4
    )
    rule = AdaptiveRule(noise, 8, 0.7, 0.5, 0.2, 0.4)
    assert rule.noise == pytest.approx(own.noise_multiplier)
    assert rule.count_noise == pytest.approx(own.clipped_count_stddev)
    norm = 0.7
    for clipped in (8, 3, 0, 5):
        own._geometric_update(clipped / 8)
        norm = rule.following(norm, clipped)
        assert norm == pytest.approx(own.clipping_norm)


def test_a_norm_that_clips_everybody_shrinks_and_so_runs_away() -> None:
    """With updates longer than the first norm all are clipped, and Flower's rule lowers it."""
    scenario = small()
    norms = adaptive_norms(scenario, AdaptiveRule(0.0, 2, 1e-3, 0.5, 0.2))
    assert len(norms) == scenario.rounds + 1
    expected = [1e-3 * math.exp(-0.1 * number) for number in range(scenario.rounds + 1)]
    assert norms == pytest.approx(expected, rel=1e-2)
    setting = Setting.parse("flower.adaptiveclipping_mod:initial_clipping_norm=0.001")
    assert any("runs away" in said for said in setting.remarks(scenario))


def test_what_the_server_adds_reaches_the_model_and_hides_nothing_from_it() -> None:
    name = "flower.DifferentialPrivacyServerSideFixedClipping"
    scenario = small(clients=4)
    run = Setting.parse(f"{name}:noise_multiplier=2,clipping_norm=0.5").run(scenario)
    assert run.sent.describe() == "none"
    (noise,) = run.trained.transforms
    assert isinstance(noise, Randomization)
    # the mean of four such noises has deviation z C / K
    assert math.sqrt(noise.variance / 4) == pytest.approx(2 * 0.5 / 4)


def test_excluded_variables_are_those_of_the_model() -> None:
    scenario = small()  # 0.weight [8, 6], 0.bias [8], 2.weight [3, 8], 2.bias [3]
    assert ExcludeVars("^0").transforms(scenario) == (Omission(((0, 48), (48, 56))),)
    assert ExcludeVars(("2.bias",)).transforms(scenario) == (Omission(((80, 83),)),)
    assert ExcludeVars("nothing").transforms(scenario) == ()
    assert "No tensor is excluded" in next(ExcludeVars("nothing").remarks(scenario))
    with pytest.raises(InvalidInput, match="leaves nothing to send"):
        ExcludeVars(".").transforms(scenario)


def test_excluded_variables_are_those_that_nvflare_leaves_out() -> None:
    dxo = pytest.importorskip("nvflare.apis.dxo")
    fl_context = pytest.importorskip("nvflare.apis.fl_context")
    shareable = pytest.importorskip("nvflare.apis.shareable")
    filters = pytest.importorskip("nvflare.app_common.filters.exclude_vars")
    layout = small().task.layout
    for asked in ("^0", r"bias$", ["2.bias", "0.weight"], ["nosuch"], "weigh"):
        data = {name: np.ones(size) for name, size in zip(layout.names, layout.sizes, strict=True)}
        given = dxo.DXO(dxo.DataKind.WEIGHT_DIFF, data=data)
        made = filters.ExcludeVars(exclude_vars=asked).process_dxo(
            given, shareable.Shareable(), fl_context.FLContext()
        )
        kept = sum(array.size for array in (given if made is None else made).data.values())
        parts = ExcludeVars(tuple(asked) if isinstance(asked, list) else asked)
        transforms = parts.transforms(small())
        dropped = [b - a for t in transforms if isinstance(t, Omission) for a, b in t.dropped]
        assert layout.size - sum(dropped) == kept


class Scaled(nn.Linear):
    """A layer with a scalar, as a temperature is."""

    def __init__(self) -> None:
        super().__init__(6, 3)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.scale * super().forward(inputs)


@pytest.mark.parametrize("name", ["SVTPrivacy", "PercentilePrivacy"])
def test_a_scalar_that_nvflare_sends_as_it_is_is_not_taken_for_filtered(name: str) -> None:
    scenario = replace(small(), model=Scaled())
    with pytest.raises(InvalidInput, match="send scale as it is"):
        Setting.parse(f"nvflare.{name}").run(scenario)
    dxo = pytest.importorskip("nvflare.apis.dxo")
    fl_context = pytest.importorskip("nvflare.apis.fl_context")
    shareable = pytest.importorskip("nvflare.apis.shareable")
    module = {"SVTPrivacy": "svt_privacy", "PercentilePrivacy": "percentile_privacy"}[name]
    kind = getattr(importlib.import_module(f"nvflare.app_common.filters.{module}"), name)
    given = dxo.DXO(dxo.DataKind.WEIGHT_DIFF, {"scale": np.array(0.5), "w": np.ones(9)})
    made = kind().process_dxo(given, shareable.Shareable(), fl_context.FLContext())
    assert made.data["scale"] == 0.5


def test_stronger_settings_keep_less_and_less() -> None:
    shares = [item.percentile for item in PercentilePrivacy(10).stronger()]  # type: ignore[attr-defined]
    assert shares == pytest.approx([77.5, 94.375, 98.59375, 99.6484375])
    assert list(Setting.parse("flower.fixedclipping_mod:clipping_norm=1").stronger()) == []
    (first, *_) = Setting.parse("top-k:keep=0.5+secret-sharing").stronger()
    assert first.describe() == "top-k:keep=0.125+secret-sharing"


def test_opacus_clips_records_and_draws_them() -> None:
    scenario = small()
    run = Setting.parse("opacus.PrivacyEngine:noise_multiplier=2,max_grad_norm=0.5").run(scenario)
    assert run.recipe is not None
    training = run.recipe.local_training
    assert (training.record_clip, training.sampling) == (0.5, "poisson")
    assert run.sent.transforms == (Randomization((2 * 0.5 / training.batch) ** 2),)
    averaged = scenario.with_local_training(algorithm="fedavg", steps=2)
    with pytest.raises(InvalidInput, match="one step"):
        Opacus(2.0, 0.5).transforms(averaged)


def flower_app(folder: Path, client: str, server: str, config: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(
        '[tool.flwr.app.components]\nserverapp = "app.server:app"\nclientapp = "client_app:app"\n'
        f"[tool.flwr.app.config]\nnum-server-rounds = 3\n{config}"
    )
    (folder / "client_app.py").write_text(client)
    (folder / "server_app.py").write_text(server)
    return folder


CLIENT = """
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
CLIP = 1.5
app = ClientApp(mods=[{mods}])
"""
WRAPPED = """
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg
def main(grid, context):
    multiplier: float = context.run_config["noise-multiplier"]
    noise = float(context.run_config["noise-multiplier"])
    strategy = DifferentialPrivacyClientSideFixedClipping(
        FedAvg(), noise, clipping_norm=context.run_config.get("clip", 0.25), num_sampled_clients=2
    )
"""


def test_a_flower_app_is_read_and_never_run(tmp_path: Path) -> None:
    bomb = "raise SystemExit('it was run')\n"
    mods = "LocalDpMod(CLIP, sensitivity=1e-4, epsilon=-(-10), delta=1e-5)"
    app = flower_app(tmp_path / "app", bomb + CLIENT.format(mods=mods), bomb)
    read = Setting.parse(str(app))
    assert read.parts == (LocalDpMod(1.5, 1e-4, 10, 1e-5),)
    assert Setting.parse(str(app / "pyproject.toml")).parts == read.parts
    wrapped = flower_app(
        tmp_path / "central",
        CLIENT.format(mods="fixedclipping_mod"),
        WRAPPED,
        "noise-multiplier = 0.5",
    )
    assert Setting.parse(str(wrapped)).describe() == (
        "flower.DifferentialPrivacyClientSideFixedClipping:"
        "noise_multiplier=0.5,clipping_norm=0.25,num_sampled_clients=2"
    )
    bare = flower_app(tmp_path / "bare", CLIENT.format(mods=""), "")
    assert Setting.parse(str(bare)).describe() == "none"


@pytest.mark.parametrize(
    ("client", "server", "told"),
    [
        (CLIENT.format(mods="LocalDpMod(*args)"), "", "not written out"),
        (CLIENT.format(mods="LocalDpMod(read(), 1, 1, 1e-5)"), "", "is computed"),
        (CLIENT.format(mods="LocalDpMod(cfg['clip'], 1, 1, 1e-5)"), "", "'clip'"),
        (CLIENT.format(mods="fixedclipping_mod"), "", "its server has no"),
        (CLIENT.format(mods=""), WRAPPED, "it does nothing"),
        ("def (", "", "no Python source"),
    ],
)
def test_an_app_that_cannot_be_read_says_why(
    tmp_path: Path, client: str, server: str, told: str
) -> None:
    app = flower_app(tmp_path / "app", client, server, "noise-multiplier = 0.5")
    with pytest.raises(InvalidInput, match=told):
        Setting.parse(str(app))


DP = "LocalDpMod(1.0, 0.5, 3.0, 1e-5)"
READ = "flower.LocalDpMod:clipping_norm=1.0,sensitivity=0.5,epsilon=3.0,delta=1e-05"
AGGREGATED = """
from flwr.server.workflow import SecAggPlusWorkflow as Hidden
workflow = Hidden(num_shares=5, reconstruction_threshold=3)
"""
MODS = "from flwr.clientapp import ClientApp\nfrom flwr.clientapp.mod import *\n"
RENAMED = f"{MODS}from flwr.clientapp.mod import LocalDpMod as Dp\n"


@pytest.mark.parametrize(
    ("client", "server", "read"),
    [
        (f"{MODS}dp = {DP}\napp = ClientApp()", "", "none"),
        (f"{MODS}dp = {DP}\napp = ClientApp(mods=None)", "", "none"),
        (f"{MODS}app = ClientApp()\nother = ClientApp(mods=[{DP}])", "", "none"),
        (f"{MODS}dp = {DP}\nlisted = (dp,)\napp: ClientApp = ClientApp(None, listed)", "", READ),
        (f"{MODS}app = ClientApp()\n@app.train(mods=[{DP}])\ndef f(): ...", "", READ),
        (f"{RENAMED}app = ClientApp(mods=[{DP.replace('LocalDpMod', 'Dp')}])", "", READ),
        (f"{MODS}from app.terms import C\napp = ClientApp(mods=[{DP.replace('1.0', 'C')}])",
         "C: float = 1.0", READ),
        (f"{MODS}app = ClientApp(mods=[secaggplus_mod, {DP}])", AGGREGATED,
         f"{READ}+flower.SecAggPlus:num_shares=5,reconstruction_threshold=3"),
    ],
)  # fmt: skip
def test_only_mods_that_are_run_count(tmp_path: Path, client: str, server: str, read: str) -> None:
    app = flower_app(tmp_path / "app", client, server)
    installed = app / "venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "flwr.py").write_text(f"workflow = SecAggPlusWorkflow({DP})")
    assert Setting.parse(str(app)).describe() == read


def test_the_first_mod_is_the_last_to_touch_an_update(tmp_path: Path) -> None:
    client = f"{MODS}app = ClientApp(mods=[{DP}, {DP.replace('3.0', '4.0')}])"
    parts = Setting.parse(str(flower_app(tmp_path / "app", client, ""))).parts
    assert [part.epsilon for part in parts if isinstance(part, LocalDpMod)] == [4.0, 3.0]


def test_a_mod_that_nobody_knows_is_told(tmp_path: Path) -> None:
    client = f"{MODS}from own import hide\napp = ClientApp(mods=[hide, message_size_mod])"
    read = Setting.parse(str(flower_app(tmp_path / "app", client, "")))
    assert read.remarks(small()) == ("The mod hide is not audited.",)


@pytest.mark.parametrize(
    ("client", "server", "told"),
    [
        (f"{MODS}app = ClientApp(mods=[{DP}] + others)", "", "mods is computed"),
        (f"{MODS}app = make()", "", "the clientapp client_app:app is computed"),
        (f"{MODS}app = ClientApp(mods=[secaggplus_mod])", "", "its server has no SecAggPlus"),
        (f"{MODS}app = ClientApp()", AGGREGATED, "clients have no secaggplus_mod"),
        (
            f"{MODS}app = ClientApp(mods=[secaggplus_mod])",
            f"{AGGREGATED}\nother = Hidden(4, 3)",
            "sets SecAggPlusWorkflow twice",
        ),
        (f"{MODS}app = ClientApp(mods=[LocalDpMod(float('x'), 1, 1, 1e-5)])", "", "is computed"),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_protection(
    tmp_path: Path, client: str, server: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        Setting.parse(str(flower_app(tmp_path / "app", client, server)))


@pytest.mark.parametrize(
    "text", ["[", "[tool.flwr]\napp = 3", "[tool.flwr.app.components]", "[tool]\nflwr = 1"]
)
def test_a_project_that_is_no_flower_app_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"pyproject\.toml"):
        Setting.parse(str(tmp_path))
    (tmp_path / "pyproject.toml").write_text(
        '[tool.flwr.app.components]\nclientapp = "nowhere.client:app"'
    )
    with pytest.raises(InvalidInput, match=r"no module nowhere\.client"):
        Setting.parse(str(tmp_path))


def test_an_app_that_trilemma_protects_is_compared_with_its_verdict(tmp_path: Path) -> None:
    client = f"{MODS}app = ClientApp(mods=[protect_mod(terms)])"
    with pytest.raises(InvalidInput, match="trilemma deploy VERDICT --check"):
        Setting.parse(str(flower_app(tmp_path / "app", client, "")))
    example = Setting.parse(str(Path(__file__).parents[3] / "examples/flower-digits"))
    assert example.notes == ("The mod switched is not audited.",)


SVT = {"path": "nvflare.app_common.filters.svt_privacy.SVTPrivacy", "args": {"fraction": 0.2}}
PERCENTILE = {"name": "PercentilePrivacy", "args": {"percentile": 30, "gamma": 0.02}}


def test_a_sites_privacy_file_is_read_by_its_default_scope(tmp_path: Path) -> None:
    file = tmp_path / "privacy.json"
    scopes = [
        {"name": "public", "task_result_filters": [PERCENTILE]},
        {
            "name": "private",
            "task_result_filters": [
                SVT,
                {"name": "ExcludeVars", "args": {"exclude_vars": ["0.bias"]}},
            ],
        },
    ]
    file.write_text(json.dumps({"scopes": scopes, "default_scope": "private"}))
    assert Setting.parse(str(file)).describe() == (
        "nvflare.SVTPrivacy:fraction=0.2+nvflare.ExcludeVars:exclude_vars=0.bias"
    )
    file.write_text(json.dumps({"scopes": scopes}))
    with pytest.raises(InvalidInput, match="default_scope"):
        Setting.parse(str(file))
    file.write_text(json.dumps({"scopes": scopes[:1]}))
    (transform,) = Setting.parse(str(file)).run(small()).sent.transforms
    assert transform == Percentile(30, 0.02)


def job(folder: Path, *filters: dict[str, Any], app: str = "app") -> Path:
    config = folder / app / "config"
    config.mkdir(parents=True)
    document = {
        "task_result_filters": [
            {"tasks": ["train"], "filters": list(filters)},
            {"tasks": ["validate"], "filters": [SVT]},
        ]
    }
    (config / "config_fed_client.json").write_text(json.dumps(document))
    return folder


def test_a_job_is_read_by_the_filters_of_its_training(tmp_path: Path) -> None:
    assert Setting.parse(str(job(tmp_path / "a", PERCENTILE))).parts == (
        PercentilePrivacy(30, 0.02),
    )
    assert Setting.parse(str(job(tmp_path / "b"))).describe() == "none"
    of_weights = {**PERCENTILE, "args": {"data_kinds": ["WEIGHTS"]}}
    assert Setting.parse(str(job(tmp_path / "c", of_weights))).describe() == "none"
    two = job(job(tmp_path / "d", PERCENTILE), SVT, app="other")
    with pytest.raises(InvalidInput, match="differently"):
        Setting.parse(str(two))
    ours = {"path": "trilemma.deployment.nvflare.site_filters.ProtectUpdate", "args": {}}
    with pytest.raises(InvalidInput, match="protects by trilemma"):
        Setting.parse(str(job(tmp_path / "g", ours)))
    with pytest.raises(InvalidInput, match="not known here"):
        Setting.parse(str(job(tmp_path / "e", {"path": "my.Filter", "args": {}})))
    (tmp_path / "f").mkdir()
    with pytest.raises(InvalidInput, match="check its name"):
        Setting.parse(str(tmp_path / "f"))


def test_filters_that_nvflare_does_not_apply_protect_nothing(tmp_path: Path) -> None:
    """Against NVFlare's own choice of the filters of a task's results."""
    off = [{**PERCENTILE, "direction": "in"}, {**PERCENTILE, "disabled": True}]
    scopes = [{"name": "public", "task_result_filters": off}]
    (tmp_path / "privacy.json").write_text(json.dumps({"scopes": scopes}))
    assert Setting.parse(str(tmp_path)).describe() == "none"
    chain = {"tasks": ["*"], "filters": [PERCENTILE]}
    file = tmp_path / "config_fed_client.json"
    file.write_text(json.dumps({"task_result_filters": [chain]}))
    read = Setting.parse(str(file))
    assert read.describe() == "none"
    assert "filters nothing" in read.remarks(small())[0]
    tasks = pytest.importorskip("nvflare.apis.utils.task_utils")
    context = pytest.importorskip("nvflare.apis.fl_context").FLContext()
    for task, found in (("train", []), ("*", [PERCENTILE])):
        chains = {"*/out": [PERCENTILE]}
        assert tasks.get_filters("task_result_filters", context, chains, task, "out") == found


def test_what_a_job_may_do_besides_is_told(tmp_path: Path) -> None:
    scopes = [
        {"name": "private", "task_result_filters": [PERCENTILE]},
        {"name": "public"},
    ]
    site = tmp_path / "site"
    (site / "local").mkdir(parents=True)
    (site / "local" / "privacy.json").write_text(
        json.dumps({"scopes": scopes, "default_scope": "private"})
    )
    read = Setting.parse(str(site))
    assert read.parts == (PercentilePrivacy(30, 0.02),)
    assert "a job may name public" in read.remarks(small())[0]
    folder = job(tmp_path / "job", PERCENTILE)
    (folder / "meta.json").write_text('{"name": "job", "scope": "public"}')
    config = folder / "app" / "config" / "config_fed_client.json"
    executor = {"path": "x.ClientAPIExecutor", "args": {"task_script_path": "client.py"}}
    document = json.loads(config.read_text())
    config.write_text(json.dumps(document | {"executors": [{"executor": executor}]}))
    told = " ".join(Setting.parse(str(folder)).remarks(small()))
    assert "sends whole weights" in told
    assert "names the scope public" in told


@pytest.mark.parametrize(
    "text",
    [
        *("[", "[]", '{"scopes": 3}', '{"a": 1}', '{"scopes": [3]}', "\x00", '{"scopes": NaN}'),
        '{"task_result_filters": [{"path": "PercentilePrivacy"}]}',
        (
            '{"scopes": [{"name": "a", "task_result_filters": [{"name": "ExcludeVars", "args": '
            '{"exclude_vars": 3}}]}]}'
        ),
        (
            '{"scopes": [{"name": "a", "task_result_filters": [{"name": "SVTPrivacy", "args": '
            '{"data_kinds": 3}}]}]}'
        ),
        '{"task_result_filters": [], "executors": [{"executor": 3}]}',
        '{"scopes": [{"name": "a", "task_result_filters": {"path": "PercentilePrivacy"}}]}',
        '{"scopes": [{"name": "a", "task_result_filters": [{"name": "SVTPrivacy", "args": 3}]}]}',
    ],
)
def test_a_file_that_is_none_of_them_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "privacy.json"
    file.write_text(text)
    with pytest.raises(InvalidInput):
        Setting.parse(str(file))
