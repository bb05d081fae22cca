"""A server that shows crafted models learns nothing of a record from what a node answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import binary_cross_entropy, cross_entropy

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from tests.deployment.flower.harness import NODES, DirectGrid, train_only, with_ledgers

from trilemma.deployment.flower import Deployment, ProtectedGrid, Terms, local_update, protect_mod
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.learning import LocalTraining
from trilemma.records.records import Records

TARGET = 40  # the node whose record the server is after
SHARING = "secret-sharing:max_weight=100"
NOISE = "randomization:variance=0.04,clip=1.0"


def records_of(node: int, *, with_target: bool) -> Records:
    """Ten records with two quiet features; the target record alone has the third."""
    draw = torch.Generator().manual_seed(node % 1000)
    inputs = torch.rand(10, 3, generator=draw)
    inputs[:, 2] = 0.0
    if with_target and node == TARGET:
        inputs[0, 2] = 1.0
    return Records(inputs, torch.arange(10) % 2)


def crafted() -> ArrayRecord:
    """Weights whose outputs overflow where the third feature is not zero."""
    weight = torch.zeros(2, 3)
    weight[:, 2] = torch.tensor([3e38, -3e38])
    return ArrayRecord({"weight": weight, "bias": torch.zeros(2)})


def overflowing(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(4.0 * outputs, labels)


def model_of(message: Message) -> torch.nn.Linear:
    model = torch.nn.Linear(3, 2)
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return model


def by_sgd(message: Message, records: Records) -> tuple[dict[str, torch.Tensor], float]:
    """One plain step over all records, as an app's own loop makes it."""
    model = model_of(message)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loss = overflowing(model(records.inputs), records.labels)
    torch.autograd.backward(loss)
    optimizer.step()
    return model.state_dict(), float(loss.detach())


def app_of(terms: Terms, how: str, *, with_target: bool) -> ClientApp:
    app = ClientApp(mods=[protect_mod(terms)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        records = records_of(context.node_id, with_target=with_target)
        if how == "local_update":
            model = model_of(message)
            local_update(model, overflowing, records, terms)
            state, value = model.state_dict(), 0.5
        else:
            state, value = by_sgd(message, records)
        if how == "stops":
            assert abs(value) < 1e30, "this app stops where a loss is no number"
        if how == "raises":  # torch itself, where a chance is no number
            outputs = 4.0 * model_of(message)(records.inputs)
            binary_cross_entropy(outputs.softmax(1)[:, 0], records.labels.float())
        metrics = MetricRecord({"num-examples": len(records), "train_loss": value})
        content = RecordDict({"arrays": ArrayRecord(state), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        records = records_of(context.node_id, with_target=with_target)
        _, value = by_sgd(message, records)
        metrics = MetricRecord({"num-examples": len(records), "eval_loss": value})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def transcript(direct: DirectGrid) -> list[tuple[int, int, str, tuple[int, ...]]]:
    """What reached the server: of whom, codes, words, and the sizes of all arrays."""
    told = []
    for reply in direct.received:
        code, words = (reply.error.code, str(reply.error.reason)) if reply.has_error() else (0, "")
        sizes: tuple[int, ...] = ()
        if not reply.has_error():
            arrays = reply.content.array_records.values()
            sizes = tuple(len(value.data) for record in arrays for value in record.values())
        told.append((reply.metadata.src_node_id, code, words, sizes))
    return told


def deployed(training: LocalTraining) -> Deployment:
    return Deployment(
        training,
        8,
        clients=4,
        cohort=4,
        threshold=3,
        rounds=40,
        sampling_rate=1.0,
        participation=training.participation,
    )


TERMS = {
    "own loop": Terms.of(f"{NOISE}+{SHARING}", weighting="equal"),
    "raises": Terms.of(f"{NOISE}+{SHARING}", weighting="equal"),
    "stops": Terms.of(f"{NOISE}+{SHARING}", weighting="equal"),
    "metric": Terms.of(SHARING, metrics=("train_loss",), metric_range=10.0),
    "measured": Terms.deployed(f"{NOISE}+{SHARING}", deployed(LocalTraining(lr=1.0, batch=10))),
    "local_update": Terms.deployed(
        f"{NOISE}+{SHARING}", deployed(LocalTraining(lr=1.0, batch=10, sampling="poisson"))
    ),
}


@pytest.mark.parametrize("how", TERMS)
def test_a_crafted_model_does_not_make_the_holder_of_a_record_refuse(
    how: str, tmp_path: Path
) -> None:
    told = []
    for with_target in (False, True):
        terms = TERMS[how]
        folder = tmp_path / str(with_target)
        folder.mkdir()
        direct = with_ledgers(DirectGrid(app_of(terms, how, with_target=with_target)), folder)
        train_only().start(ProtectedGrid(direct, terms), crafted(), num_rounds=2)
        told.append(transcript(direct))
    assert told[0] == told[1]
    assert not any(code for _, code, _, _ in told[0])


def test_an_evaluation_does_not_make_the_holder_of_a_record_refuse(tmp_path: Path) -> None:
    from tests.deployment.flower.harness import fedavg

    told = []
    for with_target in (False, True):
        terms = Terms.of(SHARING, evaluate_metrics=("eval_loss",))
        direct = DirectGrid(app_of(terms, "own loop", with_target=with_target))
        fedavg().start(ProtectedGrid(direct, terms), crafted(), num_rounds=1)
        told.append(transcript(direct))
    assert told[0] == told[1]


def test_each_asking_is_counted(tmp_path: Path) -> None:
    terms = Terms.of(NOISE, weighting="equal", budget=1000.0)
    direct = DirectGrid(app_of(terms, "stops", with_target=True))
    direct = with_ledgers(direct, tmp_path)
    train_only().start(ProtectedGrid(direct, terms), crafted(), num_rounds=20)
    for node in NODES:
        (event,) = Ledger(tmp_path / f"ledger-{node}").events("records")
        assert event.rounds == 20


def test_a_query_passes_only_where_the_terms_name_it() -> None:
    terms = Terms.of(SHARING)
    app = app_of(terms, "own loop", with_target=True)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"secret": 4711})}), reply_to=message)

    direct = DirectGrid(app)
    reply = direct.app(Message(RecordDict(), TARGET, "query"), direct.contexts[TARGET])
    assert reply.has_error()
