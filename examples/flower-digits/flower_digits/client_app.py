"""The nodes' side. Protection is the one line `mods=[...]`."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from torch.nn.functional import cross_entropy

from flower_digits import task
from trilemma.deployment.flower import local_update, protect_mod


def switched(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """`protect_mod` of the terms in the run's configuration, to show each in turn.

    In earnest write `mods=[protect_mod(terms)]`: the configuration comes with the run, and a node
    should not let the run say how well it is protected.
    """
    terms = task.make_terms(context.run_config)
    if terms is None:
        return call_next(message, context)
    return protect_mod(terms)(message, context, call_next)


app = ClientApp(mods=[switched])


@app.train()
def train(message: Message, context: Context) -> Message:
    """The update of the terms, where they say what it is; else some epochs of our own."""
    model, part = _load(message, context)
    config = message.content.config_records["config"]
    terms = task.make_terms(context.run_config)
    metrics = MetricRecord({"num-examples": len(part)})
    if terms is not None and terms.deployment is not None:
        local_update(model, cross_entropy, part, terms)
    else:
        epochs, lr = int(str(config["local-epochs"])), float(str(config["lr"]))
        metrics["train_loss"] = task.train(model, part, epochs, lr)
    arrays = ArrayRecord(model.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Loss and accuracy on this node's records."""
    model, part = _load(message, context)
    metrics = MetricRecord(task.evaluate(model, part))
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def _load(message: Message, context: Context):  # type: ignore[no-untyped-def]
    model = task.make_model()
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    number, count = context.node_config["partition-id"], context.node_config["num-partitions"]
    return model, task.records(int(number), int(count))
