"""Speed and success of the attacks, beside the original DLG, on the same fresh problems.

python benchmarks/attacks.py                     # one core; writes docs/benchmarks/attacks.md
python benchmarks/attacks.py --quick             # a minute, to see that it runs
python benchmarks/attacks.py --device cuda       # LeNet B=1 on a GPU; attacks-cuda.md
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from torch import nn
from torch.nn import functional

from trilemma.attacks import Attack, View, get
from trilemma.entropy import Seeded
from trilemma.estimation.recovering.fisher import predict
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Noise, Observation
from trilemma.records.range import InputSpec

FASHION = Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")  # Debian's package
SECTIONS = ("digits-mlp", "lenet-1", "lenet-4", "fedavg", "noise", "compression", "fisher")


@dataclasses.dataclass(frozen=True, eq=False)
class Problems:
    views: list[View]
    inputs: torch.Tensor

    @property
    def records(self) -> int:
        return self.inputs.shape[0] * self.inputs.shape[1]

    def recovered(self, found: torch.Tensor, threshold: float) -> int:
        """Records above `threshold` dB under the best assignment in each batch."""
        total = 0
        for truth, guess in zip(self.inputs.flatten(2), found.flatten(2), strict=True):
            error = ((guess[:, None] - truth[None]) ** 2).mean(-1).double().cpu().numpy()
            error = np.nan_to_num(error, nan=1e9)
            psnr = -10 * np.log10(error + 1e-12)
            rows, columns = linear_sum_assignment(-psnr)
            total += int((psnr[rows, columns] > threshold).sum())
        return total


def digits() -> tuple[torch.Tensor, torch.Tensor, str]:
    """8x8 digits in [0, 1], or smooth random blobs where scikit-learn is absent."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        generator = torch.Generator().manual_seed(0)
        coarse = torch.rand(1797, 1, 4, 4, generator=generator)
        blobs = functional.interpolate(coarse, size=(8, 8), mode="bilinear").reshape(-1, 64)
        return blobs, torch.randint(0, 10, (1797,), generator=generator), "smooth random images"
    data, labels = load_digits(return_X_y=True)
    return torch.tensor(data / 16).float(), torch.tensor(labels), "scikit-learn digits 8x8"


def images() -> tuple[torch.Tensor, torch.Tensor, str]:
    """28x28 images: Fashion-MNIST where Debian's package is, else digits enlarged bilinearly."""
    if FASHION.exists():
        raw = np.frombuffer(gzip.decompress(FASHION.read_bytes()), np.uint8, offset=16)
        names = FASHION.with_name("train-labels-idx1-ubyte.gz")
        labels = np.frombuffer(gzip.decompress(names.read_bytes()), np.uint8, offset=8)
        pixels = torch.tensor(raw.reshape(-1, 1, 28, 28)[:10000] / 255.0).float()
        return pixels, torch.tensor(labels[:10000]).long(), "Fashion-MNIST 28x28"
    small, labels_, source = digits()
    large = functional.interpolate(small.reshape(-1, 1, 8, 8), size=(28, 28), mode="bilinear")
    return large.clamp(0, 1), labels_, f"{source} enlarged to 28x28"


def mlp_task() -> Task:
    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))
    return Task(model, functional.cross_entropy, 10)


def lenet_task() -> Task:
    layers: list[nn.Module] = []
    for channels, stride in ((1, 2), (12, 2), (12, 1)):
        layers += [nn.Conv2d(channels, 12, 5, stride, 2), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(588, 10))
    return Task(model, functional.cross_entropy, 10)


def make(
    network: str,
    count: int,
    *,
    training: LocalTraining | None = None,
    variance: float = 0.0,
    keep: float | None = None,
    double: bool = False,
    device: str = "cpu",
    seed: int = 0,
) -> Problems:
    """Fresh units: model U(-.5, .5) (MLP: 20 SGD steps on), records and draw all differ."""
    task, (data, labels, _) = (
        (mlp_task(), digits()) if network == "mlp" else (lenet_task(), images())
    )
    task.model.to(device)
    training = training or LocalTraining()
    data = data.double() if double else data
    spec = InputSpec(tuple(data.shape[1:]), 0.0, 1.0)
    views, inputs = [], []
    for unit in range(count):
        source = Seeded(seed).torch_generator(network, unit)
        weights = (torch.rand(task.layout.size, generator=source) - 0.5).to(data.dtype)
        if network == "mlp":
            for _ in range(20):
                rows = torch.randint(0, len(data), (32,), generator=source)
                batch = LocalTraining(batch=32)
                weights = weights - 0.1 * client_update(
                    task, weights, data[rows], labels[rows], batch
                )
        rows = torch.randperm(len(data), generator=source)[: training.unit_size]
        weights, x, y = weights.to(device), data[rows].to(device), labels[rows].to(device)
        update = client_update(task, weights, x, y, training).detach()
        noise, known = None, None
        if variance:
            draw = torch.randn(len(update), generator=source, dtype=torch.float64)
            update = update + math.sqrt(variance) * draw.to(update)
            noise = Noise("gaussian", math.sqrt(variance))
        if keep is not None:
            known = (torch.rand(len(update), generator=source) < keep).to(device)
        views.append(View(task, weights, Observation(update, known, noise), training, spec))
        inputs.append(x)
    return Problems(views, torch.stack(inputs))


def original_dlg(view: View, seed: int) -> torch.Tensor:
    """DLG as published: torch.optim.LBFGS with lr 1, 300 steps, labels joint, one unit."""
    model, layout = view.task.model, view.task.layout
    nn.utils.vector_to_parameters(view.weights, model.parameters())
    observed = list(layout.unflatten(view.observation.update).values())
    torch.manual_seed(seed)
    device = view.weights.device
    x = torch.randn(view.records, *view.input_spec.shape, device=device).requires_grad_()
    label = torch.randn(view.records, 10, device=device).requires_grad_()
    optimiser = torch.optim.LBFGS([x, label], lr=1)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        soft = functional.softmax(label, -1)
        loss = torch.mean(torch.sum(-soft * functional.log_softmax(model(x), -1), 1))
        gradient = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        distance = torch.zeros((), device=device)
        for ours, theirs in zip(gradient, observed, strict=True):
            distance = distance + ((ours - theirs) ** 2).sum()
        distance.backward()  # type: ignore[no-untyped-call]
        return distance

    for _ in range(300):
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    return x.detach().clamp(view.input_spec.low, view.input_spec.high)


@dataclasses.dataclass(frozen=True)
class Row:
    attack: str
    tried: int
    recovered: int
    units: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.units / self.seconds

    def interval(self) -> tuple[float, float]:
        k, n = self.recovered, self.tried
        low = 0.0 if k == 0 else float(beta.ppf(0.025, k, n - k + 1))
        high = 1.0 if k == n else float(beta.ppf(0.975, k + 1, n - k))
        return low, high


def measure_ours(
    attack: Attack, made: Problems, threshold: float, restarts: int, clock: Callable[[], float]
) -> Row:
    attack(made.views[:64], restarts=restarts, seed=1)  # traces are made once in a process
    began = clock()
    found = attack(made.views, restarts=restarts, seed=1).inputs
    spent = clock() - began
    name = f"ours: {attack!r}, {restarts} restart{'s' if restarts > 1 else ''}"
    return Row(name, made.records, made.recovered(found, threshold), len(made.views), spent)


def measure_original(
    made: Problems, threshold: float, clock: Callable[[], float], label: str
) -> Row:
    began = clock()
    found = torch.stack([original_dlg(view, unit) for unit, view in enumerate(made.views)])
    spent = clock() - began
    return Row(label, made.records, made.recovered(found, threshold), len(made.views), spent)


class Attributes(dict[str, Any]):
    """breaching reads its metadata both as a dict and by attribute."""

    __getattr__ = dict.__getitem__


def measure_breaching(made: Problems, threshold: float, clock: Callable[[], float]) -> Row | None:
    """The public `breaching` package's DLG (L-BFGS, joint labels, 300 steps), if installed."""
    try:
        import breaching
    except ImportError:
        return None
    settings = breaching.get_config(
        overrides=["attack=deepleakage", "attack.optim.max_iterations=300"]
    )
    task = made.views[0].task
    setup = {"device": torch.device("cpu"), "dtype": torch.float}
    loss = nn.CrossEntropyLoss()
    attacker = breaching.attacks.prepare_attack(task.model, loss, settings.attack, setup)
    found = []
    began = clock()
    for unit, view in enumerate(made.views):
        nn.utils.vector_to_parameters(view.weights, task.model.parameters())
        metadata = Attributes(
            shape=view.input_spec.shape,
            classes=10,
            mean=(0.0,),
            std=(1.0,),
            modality="vision",
            task="classification",
        )
        parameters = [part.clone() for part in task.layout.unflatten(view.weights).values()]
        server = {"parameters": parameters, "buffers": [], "metadata": metadata}
        shared = {
            "gradients": list(task.layout.unflatten(view.observation.update).values()),
            "buffers": None,
            "metadata": {
                "num_data_points": view.records,
                "labels": None,
                "local_hyperparams": None,
                "data_key": "inputs",
            },
        }
        torch.manual_seed(unit)
        result, _ = attacker.reconstruct([server], [shared], {}, dryrun=False)
        found.append(result["data"].detach().clamp(0, 1))
    spent = clock() - began
    recovered = made.recovered(torch.stack(found), threshold)
    return Row("breaching, deepleakage, 300 steps", made.records, recovered, len(found), spent)


def speed_table(
    title: str, made: Problems, originals: int, attacks: list[tuple[Attack, int]], threshold: float
) -> list[str]:
    """The original on the first `originals` problems, ours on the same and on all of them."""
    clock = time.process_time
    same = Problems(made.views[:originals], made.inputs[:originals])
    label = "original DLG, one by one (torch.optim.LBFGS, 300 steps)"
    rows = [measure_original(same, threshold, clock, label)]
    lines = heading(title, threshold)
    lines.append(show(rows[0], rows[0]))
    print("\n".join(lines), flush=True)
    if made.inputs.shape[1:3] == (1, 1):  # breaching takes images only; at B=4 it would take hours
        package = measure_breaching(same, threshold, clock)
        missing = "| breaching | not installed | | | | |"
        lines.append(missing if package is None else show(package, rows[0]))
        print(lines[-1], flush=True)
    for attack, restarts in attacks:
        row = measure_ours(attack, made, threshold, restarts, clock)
        found = attack(same.views, restarts=restarts, seed=1).inputs
        first = same.recovered(found, threshold)
        lines.append(show(row, rows[0], f"{first}/{rows[0].tried} on the original's problems"))
        print(lines[-1], flush=True)
    return lines


def heading(title: str, threshold: float) -> list[str]:
    return [
        "",
        f"## {title}",
        "",
        (
            f"| attack | recovered (> {threshold:g} dB) | 95 % interval | attacks / core-second "
            f"| ratio | note |"
        ),
        "|---|---|---|---|---|---|",
    ]


def show(row: Row, baseline: Row, note: str = "") -> str:
    low, high = row.interval()
    return (
        f"| {row.attack} | {row.recovered}/{row.tried} = {row.recovered / row.tried:.3f} "
        f"| {low:.3f} – {high:.3f} | {row.rate:.3g} | {row.rate / baseline.rate:.1f} | {note} |"
    )


def fedavg_table(count: int) -> list[str]:
    """Weight changes of several local steps, unrolled, and read as one gradient."""
    lines = ["", "## FedAvg on digits-mlp, lr 0.5, 3 restarts (recovered > 30 dB)", ""]
    lines += [
        "| local steps | records | attack | unrolled | read as one gradient |",
        "|---|---|---|---|---|",
    ]
    for steps in (2, 5):
        for batch in (1, 2):
            training = LocalTraining("fedavg", lr=0.5, steps=steps, batch=batch)
            made = make("mlp", count, training=training, double=True, seed=steps)
            naive = [
                dataclasses.replace(
                    view,
                    local_training=LocalTraining(batch=batch),
                    observation=Observation(view.observation.update / (0.5 * steps)),
                )
                for view in made.views
            ]
            for name in ("dlg", "idlg"):
                shares = [
                    made.recovered(get(name)(views, restarts=3, seed=1).inputs, 30) / made.records
                    for views in (made.views, naive)
                ]
                lines.append(f"| {steps} | {batch} | {name} | {shares[0]:.3f} | {shares[1]:.3f} |")
                print(lines[-1], flush=True)
    return lines


def noise_table(count: int) -> list[str]:
    lines = ["", "## Noise on digits-mlp (DLG, 3 restarts, recovered > 20 dB)", ""]
    lines += ["| variance | reference | recovered | 95 % interval |", "|---|---|---|---|"]
    reference = {0.0: 0.993, 9e-4: 0.972, 1.6e-3: 0.725, 2e-3: 0.567, 2.5e-3: 0.313, 3e-3: 0.125}
    for variance, expected in reference.items():
        made = make("mlp", count, variance=variance, double=True, seed=10)
        row = measure_ours(get("dlg"), made, 20, 3, time.process_time)
        low, high = row.interval()
        lines.append(
            f"| {variance:g} | {expected} | {row.recovered}/{row.tried} = "
            f"{row.recovered / row.tried:.3f} | {low:.3f} – {high:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


def compression_table(count: int) -> list[str]:
    lines = ["", "## Compression on digits-mlp (DLG, 1000 iterations, 4 restarts, > 20 dB)", ""]
    lines += [
        "The reference started from normal noise; starts near the middle of the range are ours.",
        "",
        "| kept | reference | recovered from normal starts | 95 % interval | from middle starts |",
        "|---|---|---|---|---|",
    ]
    for keep, expected in {0.1: 1.0, 0.05: 0.617, 0.04: 0.4, 0.03: 0.008}.items():
        made = make("mlp", count, keep=keep, double=True, seed=20)
        rows = []
        for start in ("normal", "middle"):
            attack = get("dlg", iterations=1000, precision="double", start=start)
            found = attack(made.views, restarts=4, seed=1).inputs
            rows.append(Row(start, made.records, made.recovered(found, 20), count, 1.0))
        low, high = rows[0].interval()
        normal, middle = (f"{r.recovered}/{r.tried} = {r.recovered / r.tried:.3f}" for r in rows)
        lines.append(f"| {keep:g} | {expected} | {normal} | {low:.3f} – {high:.3f} | {middle} |")
        print(lines[-1], flush=True)
    return lines


def fisher_table(count: int) -> list[str]:
    """The predicted 50 % noise variance, and the share recovered there and near it."""
    lines = ["", "## Fisher prediction of the 50 % noise point, no attack run", ""]
    lines += [
        "| network | predicted variance | recovered at 0.75 / 1 / 1.25 x predicted |",
        "|---|---|---|",
    ]
    for network, threshold, name, units, effort in (
        ("mlp", 20, "dlg", count, 300),
        ("lenet", 25, "idlg", max(count // 4, 8), 600),
    ):
        clean = make(network, units, double=True, seed=30)
        labels = torch.stack([true_labels(network, unit, 30) for unit in range(units)])
        half = predict(clean.views, clean.inputs, labels).half_point(threshold)
        shares = []
        for factor in (0.75, 1.0, 1.25):
            noisy = make(network, units, variance=factor * half, double=True, seed=30)
            found = get(name, iterations=effort)(noisy.views, restarts=1, seed=1).inputs
            shares.append(noisy.recovered(found, threshold) / units)
        lines.append(
            f"| {network} at {threshold} dB, {units} units | {half:.3g} | "
            + " / ".join(f"{share:.3f}" for share in shares)
            + " |"
        )
        print(lines[-1], flush=True)
    return lines


def true_labels(network: str, unit: int, seed: int) -> torch.Tensor:
    """The labels of `make`'s unit, by replaying its draws."""
    data, labels, _ = digits() if network == "mlp" else images()
    task = mlp_task() if network == "mlp" else lenet_task()
    source = Seeded(seed).torch_generator(network, unit)
    torch.rand(task.layout.size, generator=source)
    for _ in range(20 if network == "mlp" else 0):
        torch.randint(0, len(data), (32,), generator=source)
    return labels[torch.randperm(len(data), generator=source)[:1]]


def cuda_table(batch: int, originals: int) -> list[str]:
    """LeNet B=1 on one GPU: one by one, and `batch` units at once."""

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    made = make("lenet", batch, device="cuda")
    same = Problems(made.views[:originals], made.inputs[:originals])
    original_dlg(made.views[0], 0)
    lines = heading(f"LeNet 1x28x28, B=1, on {torch.cuda.get_device_name()} (wall seconds)", 30)
    base = measure_original(same, 30, clock, "original DLG, one by one")
    one = get("idlg", slots=1)
    rows = [base, measure_ours(one, Problems(made.views[:8], made.inputs[:8]), 30, 1, clock)]
    for attack in (get("idlg", slots=batch), get("dlg", slots=batch)):
        attack(made.views, restarts=1, seed=1)
        rows.append(measure_ours(attack, made, 30, 1, clock))
    lines += [show(row, base) for row in rows]
    print("\n".join(lines), flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4096, help="units at once on a GPU")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, help="[docs/benchmarks/attacks.md, attacks-cuda.md]")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    out = options.out or Path(f"docs/benchmarks/attacks{'-cuda' * on_gpu}.md")
    torch.set_num_threads(1)
    quick = options.quick
    lines = [
        "# Attacks: speed and success",
        "",
        (
            f"Made by `python benchmarks/attacks.py{' --device cuda' * on_gpu}"
            f"{' --quick' * quick}` (torch {torch.__version__}, one thread). 8x8 data: "
            f"{digits()[2]}; 28x28 data: {images()[2]}. Ratios are of attacks per core-second "
            f"(on a GPU: per second), the original's success beside ours."
        ),
    ]
    if on_gpu:
        lines += cuda_table(256 if quick else options.batch, 2 if quick else 8)
    else:
        for section in options.sections:
            lines += SECTION_MAKERS[section](quick)
            write(out, lines)  # sections take minutes: keep what is done
    write(out, lines)


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def digits_speed(quick: bool) -> list[str]:
    made = make("mlp", 64 if quick else 512)
    attacks = [(get("dlg"), 1), (get("dlg"), 3), (get("idlg"), 1)]
    return speed_table("digits-mlp, S=1", made, 4 if quick else 64, attacks, 20)


def lenet_speed(quick: bool) -> list[str]:
    made = make("lenet", 16 if quick else 128)
    attacks: list[tuple[Attack, int]] = [(get("idlg"), 1)]
    if not quick:
        attacks.append((get("dlg", iterations=600), 1))
    return speed_table("LeNet 1x28x28, B=1", made, 1 if quick else 50, attacks, 30)


def lenet_batch_speed(quick: bool) -> list[str]:
    made = make("lenet", 4 if quick else 52, training=LocalTraining(batch=4))
    efforts = (100,) if quick else (1500, 2500)
    attacks = [(get("idlg", iterations=effort, slots=16), 1) for effort in efforts]
    title = "LeNet 1x28x28, B=4, by assignment (attacks are batches, recovered are records)"
    return speed_table(title, made, 1 if quick else 52, attacks, 30)


SECTION_MAKERS: dict[str, Callable[[bool], list[str]]] = {
    "digits-mlp": digits_speed,
    "lenet-1": lenet_speed,
    "lenet-4": lenet_batch_speed,
    "fedavg": lambda quick: fedavg_table(8 if quick else 60),
    "noise": lambda quick: noise_table(16 if quick else 400),
    "compression": lambda quick: compression_table(4 if quick else 120),
    "fisher": lambda quick: fisher_table(16 if quick else 200),
}


if __name__ == "__main__":
    main()
