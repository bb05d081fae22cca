"""What a site's filters let in and out, on NVFlare's own objects."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.deployment.verdicts import FULL, SINGLE, SUMMED, verdict_file
from torch.nn.functional import cross_entropy

pytest.importorskip("nvflare", reason="needs the extra `nvflare`: pip install 'trilemma[nvflare]'")

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.workspace import Workspace
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.private.fed.app.fl_conf import create_privacy_manager
from nvflare.private.privacy_manager import PrivacyService

from trilemma import api
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.nvflare import (
    AdmitTask,
    BindScope,
    ProtectUpdate,
    VerdictStep,
    local_update,
)
from trilemma.errors import InvalidInput, NotConfigured
from trilemma.scenarios.digits import digits

NOISE = "randomization:variance=1e-4,clip=1.0"
SCENARIO = digits(clients=4)
PART = SCENARIO.records[0]


def model() -> torch.nn.Module:
    return deepcopy(SCENARIO.model)


def task(name: str = "train") -> FLContext:
    """The context of a task at the site site-1."""
    context = FLContext()
    context.set_prop(ReservedKey.IDENTITY_NAME, "site-1", private=False, sticky=False)
    context.set_prop(FLContextKey.TASK_NAME, name, private=True, sticky=False)
    return context


def shown(network: torch.nn.Module) -> Shareable:
    """The server's task data, in numpy as NVFlare sends it."""
    arrays = {name: values.numpy() for name, values in network.state_dict().items()}
    return FLModelUtils.to_shareable(FLModel(params=arrays, current_round=0))


def reply(arrays: Mapping[str, Any], kind: str = DataKind.WEIGHT_DIFF, **meta: Any) -> Shareable:
    return DXO(kind, dict(arrays), meta).to_shareable()


def numpy_arrays(update: FLModel) -> dict[str, np.ndarray]:
    return {name: values.numpy() for name, values in update.params.items()}


def flat(arrays: Mapping[str, Any]) -> np.ndarray:
    return np.concatenate([np.asarray(values).ravel() for values in arrays.values()])


@pytest.fixture
def admit(tmp_path: Path) -> AdmitTask:
    """The filter of a site that keeps to a verdict with hardly any noise."""
    path = verdict_file(tmp_path / "verdict.json", "randomization:variance=1e-16")
    return AdmitTask(verdict=str(path), ledger=str(tmp_path / "ledger.json"))


def test_what_leaves_is_the_gradient_that_the_verdict_names(
    admit: AdmitTask, tmp_path: Path
) -> None:
    """Against clipping record by record with plain autograd."""
    network, context = model(), task()
    admit.process(shown(network), context)
    update = local_update(network, cross_entropy, PART)
    out = ProtectUpdate().process(reply(numpy_arrays(update)), context)
    total, own = torch.zeros(2410), model()
    for index in range(len(PART)):
        own.zero_grad()
        cross_entropy(own(PART.inputs[index][None]), PART.labels[index][None]).backward()  # type: ignore[no-untyped-call]
        gradient = torch.cat([values.grad.reshape(-1) for values in own.parameters()])  # type: ignore[union-attr]
        total += gradient * min(1.0, 1.0 / float(gradient.norm()))
    expected = -FULL.lr * total / FULL.batch
    sent = from_shareable(out)
    assert sent.data_kind == DataKind.WEIGHT_DIFF
    np.testing.assert_allclose(flat(sent.data), expected.numpy(), atol=2e-8)
    (event,) = Ledger(tmp_path / "ledger.json").events("site-1")
    assert (event.rounds, event.level) == (1, "record")


def test_noise_is_drawn_anew_and_has_the_stated_deviation(tmp_path: Path) -> None:
    network = model()
    admit = AdmitTask(protection="randomization:variance=4e-4,clip=0.5")
    drawn = []
    for _ in range(8):
        context = task()
        admit.process(shown(network), context)
        ones = {n: np.ones(v.shape, np.float32) for n, v in network.state_dict().items()}
        out = ProtectUpdate().process(reply(ones), context)
        drawn.append(flat(from_shareable(out).data))
    noise = np.stack(drawn) - 0.5 / np.sqrt(2410)  # the clipped update
    assert len(np.unique(noise)) > 0.99 * noise.size
    assert abs(noise.mean()) < 5 * 0.02 / np.sqrt(noise.size)
    assert noise.std() == pytest.approx(0.02, rel=5 / np.sqrt(2 * noise.size))


def test_compression_keeps_a_random_share_scaled_up() -> None:
    network, context = model(), task()
    AdmitTask(protection="compression:keep=0.25").process(shown(network), context)
    ones = {n: np.ones(v.shape, np.float32) for n, v in network.state_dict().items()}
    sent = flat(from_shareable(ProtectUpdate().process(reply(ones), context)).data)
    assert set(np.unique(sent)) == {0.0, 4.0}
    assert (sent > 0).mean() == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / 2410))


def test_nothing_leaves_beside_the_update(admit: AdmitTask) -> None:
    network, context = model(), task()
    admit.process(shown(network), context)
    update = local_update(network, cross_entropy, PART)
    update.metrics, update.meta = (
        {"accuracy": 0.9},
        {"NUM_STEPS_CURRENT_ROUND": 375, "patient": "Doe"},
    )
    given = FLModelUtils.to_shareable(update)
    given.set_header("patient", "Doe")
    given["patient"] = "Doe"
    out = ProtectUpdate().process(given, context)
    assert "Doe" not in repr(out)
    sent = from_shareable(out)
    assert sent.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 1
    assert MetaKey.INITIAL_METRICS not in sent.meta


@pytest.mark.parametrize("kind", [DataKind.WEIGHTS, DataKind.METRICS, DataKind.COLLECTION])
def test_payloads_of_other_kinds_are_refused(admit: AdmitTask, kind: str) -> None:
    network, context = model(), task()
    admit.process(shown(network), context)
    data: dict[str, Any] = {n: v.numpy() for n, v in network.state_dict().items()}
    if kind == DataKind.COLLECTION:
        data = {"update": DXO(DataKind.WEIGHT_DIFF, data)}
    with pytest.raises(ContentBlockedException, match="the site's log says why"):
        ProtectUpdate().process(reply(data, kind), context)
    with pytest.raises(ContentBlockedException):
        ProtectUpdate().process(Shareable({"weights": data}), context)


def test_a_result_that_nobody_asked_for_is_refused(admit: AdmitTask) -> None:
    network, context = model(), task()
    admit.process(shown(network), context)
    update = reply(numpy_arrays(local_update(network, cross_entropy, PART)))
    ProtectUpdate().process(update, context)
    with pytest.raises(ContentBlockedException):
        ProtectUpdate().process(update, context)
    with pytest.raises(ContentBlockedException):
        ProtectUpdate().process(update, task())


def test_of_a_script_that_failed_its_code_leaves(admit: AdmitTask) -> None:
    context = task()
    admit.process(shown(model()), context)
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    failed["why"] = "record 7 is Jane Doe"
    out = ProtectUpdate().process(failed, context)
    assert out.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert "Doe" not in repr(out)
    told = ProtectUpdate().process(make_reply("record 7 is Jane Doe"), task())
    assert told.get_return_code() == ReturnCode.EXECUTION_EXCEPTION


@pytest.mark.parametrize("how", ["own training", "twice", "more", "external process"])
def test_zeros_leave_in_place_of_what_was_not_made_by_local_update(
    how: str, admit: AdmitTask, caplog: pytest.LogCaptureFixture
) -> None:
    network, context = model(), task()
    admit.process(shown(network), context)
    if how in ("own training", "external process"):
        params = {n: np.ones(v.shape, np.float32) for n, v in network.state_dict().items()}
    else:
        params = numpy_arrays(local_update(network, cross_entropy, PART))
        if how == "twice":
            local_update(network, cross_entropy, PART)
        else:
            params = {name: values + np.float32(1e-3) for name, values in params.items()}
    with caplog.at_level(logging.ERROR):
        sent = from_shareable(ProtectUpdate().process(reply(params), context))
    assert np.abs(flat(sent.data)).max() < 1e-7  # the noise alone
    assert "the site sends zeros" in caplog.text


def test_training_that_fails_sends_zeros(admit: AdmitTask) -> None:
    network, context = model(), task()
    admit.process(shown(network), context)

    def loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("record 7 is Jane Doe")

    update = local_update(network, loss, PART)
    sent = from_shareable(ProtectUpdate().process(reply(numpy_arrays(update)), context))
    assert np.abs(flat(sent.data)).max() < 1e-7


@pytest.mark.parametrize(
    ("settings", "shown_task", "said"),
    [
        ({}, "validate", "answers no task 'validate'"),
        ({}, "small", "but 2410 were measured"),
        ({}, "differences", "kind WEIGHT_DIFF"),
        ({"policy": "smallest-cohort = 4"}, "train", "does not tell a node how many"),
        ({"policy": "threshold = 2"}, "train", "a sum of 2 clients at least"),
        ({"policy": f'protection = "{NOISE}"'}, "train", "updates are not clipped"),
        ({"policy": 'protection = "secret-sharing"'}, "train", "reads single messages"),
        ({"policy": f'verdict = "sha256:{"0" * 64}"'}, "train", "is not one that it names"),
        ({"ledger": ""}, "train", "trilemma-ledger"),
    ],
)
def test_a_task_is_refused_before_any_work(
    settings: dict[str, str],
    shown_task: str,
    said: str,
    admit: AdmitTask,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if "policy" in settings:
        (tmp_path / "policy.toml").write_text(settings["policy"])
        settings = {"policy": str(tmp_path / "policy.toml")}
    for name, value in settings.items():
        setattr(admit, name, value)
    context = task(shown_task if shown_task == "validate" else "train")
    network = torch.nn.Linear(2, 2) if shown_task == "small" else model()
    data = shown(network)
    if shown_task == "differences":
        data = reply(from_shareable(data).data)
    with caplog.at_level(logging.ERROR), pytest.raises(ContentBlockedException) as refused:
        admit.process(data, context)
    assert said in caplog.text
    assert said not in str(refused.value), "the reason stays at the site"
    assert not (tmp_path / "ledger.json").exists(), "and nothing is counted"
    with pytest.raises(NotConfigured, match="asked for nothing"):
        local_update(model(), cross_entropy, PART)


def test_one_more_round_than_the_ledger_has_is_refused(
    admit: AdmitTask, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        admit.process(shown(model()), task())
    with caplog.at_level(logging.ERROR), pytest.raises(ContentBlockedException):
        admit.process(shown(model()), task())
    assert "the data took part in 3 rounds" in caplog.text


@pytest.mark.parametrize("settings", [{}, {"verdict": "v.json", "protection": "none"}])
def test_filters_that_name_no_protection_let_nothing_in(settings: dict[str, str]) -> None:
    with pytest.raises(ContentBlockedException):
        AdmitTask(**settings).process(shown(model()), task())


def test_secure_aggregation_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = verdict_file(tmp_path / "verdict.json", SUMMED)
    with caplog.at_level(logging.ERROR), pytest.raises(ContentBlockedException):
        AdmitTask(verdict=str(path)).process(shown(model()), task())
    assert "secret-sharing needs secure aggregation, which is not there for NVFlare" in caplog.text
    with pytest.raises(InvalidInput, match="deploy this verdict in Flower"):
        VerdictStep.of_verdict(path)


def test_the_scope_of_a_task_gets_the_filters_once(tmp_path: Path) -> None:
    path = verdict_file(tmp_path / "verdict.json", SINGLE)
    bind, context = BindScope(verdict=str(path)), task()
    for _ in range(2):
        bind.handle_event(EventType.BEFORE_TASK_DATA_FILTER, context)
    scope = context.get_prop(FLContextKey.SCOPE_OBJECT)
    (admit,) = scope.task_data_filters[FilterKey.IN]
    (protect,) = scope.task_result_filters[FilterKey.OUT]
    assert isinstance(admit, AdmitTask)
    assert admit.verdict == str(path)
    assert isinstance(protect, ProtectUpdate)


def test_nvflare_gives_every_job_the_sites_filters_whatever_scope_it_names(
    tmp_path: Path,
) -> None:
    """By NVFlare's own reading of the privacy.json that `deploy` joins, as a real site does."""
    verdict = verdict_file(tmp_path / "verdict.json", SINGLE)
    other = {"path": "nvflare.app_common.filters.exclude_vars.ExcludeVars", "args": {}}
    own = {
        "scopes": [
            {"name": "private", "task_result_filters": [other]},
            {"name": "public", "properties": {"risk": "low"}},
        ],
        "default_scope": "private",
    }
    (tmp_path / "own.json").write_text(json.dumps(own))
    api.deploy(verdict, nvflare=tmp_path / "job", scopes=tmp_path / "own.json")
    for folder in ("local", "startup"):
        (tmp_path / "site" / folder).mkdir(parents=True)
    joined = (tmp_path / "job" / "privacy.json").read_text()
    (tmp_path / "site" / "local" / "privacy.json").write_text(joined)
    manager = create_privacy_manager(Workspace(str(tmp_path / "site")), names_only=False)
    PrivacyService.initialize(manager)
    try:
        for name in ("private", "public", "", None):
            scope = PrivacyService.get_scope(name)
            context = task()
            context.set_prop(FLContextKey.SCOPE_OBJECT, scope, private=True, sticky=True)
            manager.components["trilemma"].handle_event(EventType.BEFORE_TASK_DATA_FILTER, context)
            first, *more = scope.task_data_filters[FilterKey.IN]
            assert isinstance(first, AdmitTask)
            assert first.ledger == str(tmp_path / "job" / "ledger.json")
            assert not more, "once"
            assert isinstance(scope.task_result_filters[FilterKey.OUT][0], ProtectUpdate)
        assert not PrivacyService.is_scope_allowed("another"), "NVFlare refuses the job"
    finally:
        PrivacyService.initialize(None)


def test_the_server_takes_the_measured_step() -> None:
    aggregator = VerdictStep(step=8.0, decay=True, rounds=4, learning_rate=0.1, least=2)
    aggregator.fl_ctx = FLContext()
    aggregator.fl_ctx.set_prop(AppConstants.CURRENT_ROUND, 1, private=True, sticky=False)
    aggregator.reset_stats()
    for value in (1.0, 3.0):
        sent = {"weight": np.full(3, -0.1 * value, np.float32)}  # -lr times the update
        aggregator.accept_model(FLModel(params=sent, params_type=ParamsType.DIFF))
    moved = aggregator.aggregate_model().params["weight"]
    np.testing.assert_allclose(moved, -6.0 * 2.0, rtol=1e-6)  # the step falls: 8 · (1 - 1/4)
    aggregator.reset_stats()
    aggregator.accept_model(FLModel(params=sent, params_type=ParamsType.DIFF))
    assert not aggregator.aggregate_model().params["weight"].any(), "too few sites"


def test_the_server_takes_no_whole_models_and_no_unlike_ones() -> None:
    aggregator = VerdictStep()
    with pytest.raises(InvalidInput, match=r"TransferType\.DIFF"):
        aggregator.accept_model(FLModel(params={"w": np.zeros(2)}, params_type=ParamsType.FULL))
    aggregator.accept_model(FLModel(params={"w": np.zeros(2)}, params_type=ParamsType.DIFF))
    with pytest.raises(InvalidInput, match="unlike models"):
        aggregator.accept_model(FLModel(params={"w": np.zeros(1)}, params_type=ParamsType.DIFF))
