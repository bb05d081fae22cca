"""What a training script calls: the update of the site's terms, ready to send."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import torch
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from trilemma.deployment.nodes.node_training import local_update as node_update
from trilemma.deployment.nodes.node_training import watched
from trilemma.deployment.nvflare.asked_update import asked_now
from trilemma.errors import NotConfigured

if TYPE_CHECKING:
    from trilemma.learning.losses import Loss
    from trilemma.records.records import Dataset, Records

__all__ = ["local_update"]

_LOG: Final = logging.getLogger("trilemma.nvflare")


def local_update(model: torch.nn.Module, loss: Loss, dataset: Dataset | Records) -> FLModel:
    """Trains the model in place on some of the records, as the site's terms say; what to send.

    Load the received parameters into the model first, and call it once for a task:
    `flare.send(local_update(model, cross_entropy, dataset))`. The terms are the site's own, and
    clip record by record where they say so. Where training fails, zeros are sent, so that no
    server learns which records made it fail, and the site's log says why.
    """
    asked = asked_now()
    if asked is None:
        raise NotConfigured(
            "this process was asked for nothing by trilemma's filters; put them into the site's "
            "privacy.json (trilemma deploy VERDICT --nvflare DIR), and train in the site's own "
            "process (launch_external_process=False)."
        )
    before = _arrays(model)
    try:
        with watched() as made:
            node_update(model, loss, dataset, asked.terms)
        asked.made.extend(made)
        after = _arrays(model)
    except Exception as error:  # of any kind: it may depend on a record
        _LOG.error("training failed, and zeros are sent: %s", error)
        after = before
    difference = {name: after[name] - before[name] for name in before}
    return FLModel(params=difference, params_type=ParamsType.DIFF)


def _arrays(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: values.detach().cpu().clone()
        for name, values in model.state_dict().items()
        if values.is_floating_point()
    }
