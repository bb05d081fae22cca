"""The nodes' side."""

# mypy: ignore-errors

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pytorchexample.task import Net, load_data
from pytorchexample.task import test as test_fn
from pytorchexample.task import train as train_fn

app = ClientApp()


def load(msg, context):
    """The model as it came, and this node's loaders."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    part = context.node_config["partition-id"], context.node_config["num-partitions"]
    return model, load_data(*part, context.run_config["batch-size"])


@app.train()
def train(msg: Message, context: Context):
    model, (trainloader, _) = load(msg, context)
    epochs, lr = context.run_config["local-epochs"], msg.content["config"]["lr"]
    train_loss = train_fn(model, trainloader, epochs, lr)
    metrics = {"train_loss": train_loss, "num-examples": len(trainloader.dataset)}
    arrays = ArrayRecord(model.state_dict())
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    model, (_, testloader) = load(msg, context)
    eval_loss, eval_acc = test_fn(model, testloader)
    count = len(testloader.dataset)
    metrics = {"eval_loss": eval_loss, "eval_acc": eval_acc, "num-examples": count}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
