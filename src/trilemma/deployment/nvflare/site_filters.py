"""The site's two filters: one lets a task in and counts it, the other lets the update out.

Both belong in every scope of the site's privacy.json, where no job can leave them out. `BindScope`
belongs among its components and puts them into a job's scope where they are not, as in NVFlare's
simulator, which reads that file but gives a job no scope. What an owner decides (verdict, policy,
ledger) comes from their arguments there, or from the environment of the site, never from a job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import torch
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import ContentBlockedException, Filter
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.app_constant import AppConstants

from trilemma.deployment.nodes.node import Node
from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import claimed_terms
from trilemma.deployment.nvflare.asked_update import AskedUpdate
from trilemma.errors import InvalidInput, ProtocolViolation, TrilemmaError

__all__ = ["AdmitTask", "BindScope", "ProtectUpdate", "require_plain"]

_LOG: Final = logging.getLogger("trilemma.nvflare")
_ASKED: Final = "trilemma asked update"
_CODES: Final = {value for name, value in vars(ReturnCode).items() if name.isupper()}


@dataclass
class _NoStore:
    """A node's memory between messages; one with a plain transport needs none."""

    memory: dict[str, Any]
    change: torch.Tensor | None = None

    def keep_change(self, change: torch.Tensor) -> None:
        self.change = change


class AdmitTask(Filter):  # type: ignore[misc]
    """Refuses, before any work, a task that the site's terms or policy do not allow.

    One that they allow is counted in the ledger before the script runs. `verdict` is the file of
    the verdict that the site keeps to, or `protection` a text such as
    "randomization:variance=1e-4,clip=1.0"; `policy`, `ledger` and `data` are the node's own
    settings (else TRILEMMA_POLICY, TRILEMMA_LEDGER; data are named by the site). Only tasks of
    the name `task` are answered, which send a model to train.
    """

    def __init__(
        self,
        verdict: str = "",
        protection: str = "",
        policy: str = "",
        ledger: str = "",
        data: str = "",
        task: str = AppConstants.TASK_TRAIN,
    ) -> None:
        super().__init__()
        self.verdict, self.protection, self.policy = verdict, protection, policy
        self.ledger, self.data, self.task = ledger, data, task

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        try:
            asked = self._asked(shareable, fl_ctx)
        except TrilemmaError as error:
            _block(error)
        asked.open()
        fl_ctx.set_prop(_ASKED, asked, private=True, sticky=False)
        return shareable

    def _asked(self, shareable: Shareable, fl_ctx: FLContext) -> AskedUpdate:
        node = self._node(str(fl_ctx.get_identity_name(default="site")))
        terms, name = node.terms, fl_ctx.get_prop(FLContextKey.TASK_NAME)
        if name != self.task:
            raise ProtocolViolation(
                f"this site answers no task {name!r:.80}, only {self.task!r}, since nothing but a "
                "protected update leaves it; evaluate the model on the server."
            )
        model = _arrays(shareable, DataKind.WEIGHTS)
        size = sum(array.numel() for array in model.values())
        deployment = terms.deployment
        if deployment is not None and size != deployment.parameters:
            raise ProtocolViolation(
                f"the server's model has {size} parameters, but {deployment.parameters} were "
                "measured; deploy the model that was measured, or measure again."
            )
        if node.policy is not None:
            node.policy.require_cohort(None, threshold=1)
            node.policy.require_check(given=False)
        node.count("train", 1 if deployment is None else deployment.cohort)
        copies = {name: array.clone() for name, array in model.items()}  # scripts train in place
        return AskedUpdate(terms, copies)

    def _node(self, site: str) -> Node:
        if bool(self.verdict) == bool(self.protection):
            raise InvalidInput(
                "the site's filters need a verdict or a protection, and not both; correct its "
                "privacy.json."
            )
        if self.verdict:
            terms = claimed_terms(self.verdict)
        else:
            terms = Terms.of(self.protection, weighting="equal")
        require_plain(terms)
        given = {"policy": self.policy, "ledger": self.ledger, "data": self.data or site}
        config = {f"trilemma-{name}": value for name, value in given.items() if value}
        return Node.of(terms, 0, 0, config, _NoStore({}))


class ProtectUpdate(DXOFilter):  # type: ignore[misc]
    """Lets nothing out but the protected difference of weights that `AdmitTask` let be asked for.

    Noise, clip and compression are those of the terms; other kinds of payload are refused, and
    metrics, step counts and headers stay at the site. Of a script that failed its code leaves.
    """

    def __init__(self) -> None:
        super().__init__([DataKind.WEIGHT_DIFF], [DataKind.WEIGHT_DIFF])

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        asked = fl_ctx.get_prop(_ASKED)
        fl_ctx.set_prop(_ASKED, None, private=True, sticky=False)
        if asked is not None:
            asked.close()
        if (code := shareable.get_return_code()) != ReturnCode.OK:
            return make_reply(code if code in _CODES else ReturnCode.EXECUTION_EXCEPTION)
        try:
            if not isinstance(asked, AskedUpdate):
                raise ProtocolViolation(
                    "a result leaves that no AdmitTask let be asked for; put both filters into "
                    "the scope."
                )
            differences = _arrays(shareable, DataKind.WEIGHT_DIFF)
            if {n: a.shape for n, a in differences.items()} != _shapes(asked.model):
                raise ProtocolViolation(
                    "the result does not have the arrays of the model that the server sent; send "
                    "a difference for each of them."
                )
        except TrilemmaError as error:
            _block(error)
        self._current = asked
        alone = DXO(DataKind.WEIGHT_DIFF, data=from_shareable(shareable).data).to_shareable()
        result: Shareable = super().process(alone, fl_ctx)
        return result

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """The difference as it leaves; each site counts as one."""
        sent = self._current.protected(_tensors(dxo.data))
        data = {
            name: array if isinstance(dxo.data[name], torch.Tensor) else array.numpy()
            for name, array in sent.items()
        }
        return DXO(DataKind.WEIGHT_DIFF, data, {MetaKey.NUM_STEPS_CURRENT_ROUND: 1})


class BindScope(FLComponent):  # type: ignore[misc]
    """Puts the site's two filters first into the scope of each task that has them not yet.

    Its arguments are those of `AdmitTask`.
    """

    def __init__(
        self,
        verdict: str = "",
        protection: str = "",
        policy: str = "",
        ledger: str = "",
        data: str = "",
        task: str = AppConstants.TASK_TRAIN,
    ) -> None:
        super().__init__()
        self._admit = AdmitTask(verdict, protection, policy, ledger, data, task)
        self._protect = ProtectUpdate()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type != EventType.BEFORE_TASK_DATA_FILTER:
            return
        scope = fl_ctx.get_prop(FLContextKey.SCOPE_OBJECT)
        if scope is None:
            scope = _Scope({FilterKey.IN: []}, {FilterKey.OUT: []})
            fl_ctx.set_prop(FLContextKey.SCOPE_OBJECT, scope, private=True, sticky=True)
        for filters, own in (
            (scope.task_data_filters[FilterKey.IN], self._admit),
            (scope.task_result_filters[FilterKey.OUT], self._protect),
        ):
            if not any(isinstance(part, type(own)) for part in filters):
                filters.insert(0, own)


@dataclass
class _Scope:
    """What NVFlare asks of the scope of a task."""

    task_data_filters: dict[str, list[Filter]]
    task_result_filters: dict[str, list[Filter]]


def require_plain(terms: Terms) -> None:
    """Raises where terms hide single messages, which needs a protocol of several exchanges."""
    if terms.protection.transport.server_reads != "messages":
        raise InvalidInput(
            f"{terms.protection.transport.name} needs secure aggregation, which is not there for "
            "NVFlare yet; deploy this verdict in Flower, or tune with --families randomization."
        )


def _block(error: TrilemmaError) -> NoReturn:
    """Refuses by NVFlare's own code; the reason stays in the site's log."""
    _LOG.error("the site refuses: %s", error)
    raise ContentBlockedException(f"{type(error).__name__}: the site's log says why") from None


def _arrays(shareable: Shareable, kind: str) -> dict[str, torch.Tensor]:
    """The floating-point arrays of a payload, which has to be of this kind."""
    try:
        dxo = from_shareable(shareable)
    except (ValueError, TypeError):
        raise ProtocolViolation(f"the payload is no DXO, and {_word(kind)} is due.") from None
    if dxo.data_kind != kind:
        raise ProtocolViolation(
            f"the payload is of kind {_word(dxo.data_kind):.80}, and only {_word(kind)} passes; "
            "set params_transfer_type=TransferType.DIFF, or send what local_update returns."
        )
    arrays = _tensors(dxo.data)
    if not arrays:
        raise ProtocolViolation("the payload holds no floating-point array.")
    return arrays


def _word(kind: object) -> str:
    return str(getattr(kind, "value", kind))


def _tensors(data: object) -> dict[str, torch.Tensor]:
    if not isinstance(data, Mapping) or not all(
        isinstance(array, np.ndarray | np.generic | torch.Tensor) for array in data.values()
    ):
        raise ProtocolViolation("the payload is no mapping of names to arrays.")
    tensors = {str(name): torch.as_tensor(array).detach().cpu() for name, array in data.items()}
    return {name: array for name, array in tensors.items() if array.is_floating_point()}


def _shapes(arrays: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: array.shape for name, array in arrays.items()}
