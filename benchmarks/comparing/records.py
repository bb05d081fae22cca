"""Record-level privacy: Opacus' clipping against ours, and accountants at the same settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import dp_accounting
import torch
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from opacus import GradSampleModule
from opacus.accountants import PRVAccountant, RDPAccountant
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.pages.tables import Row, Table, seconds
from trilemma.accounting import trade_off
from trilemma.accounting.sampled_training import Training
from trilemma.federation.cohort_updates import Sending
from trilemma.learning import LocalTraining, Task
from trilemma.scenarios.networks import lenet, mlp, uniform_weights

__all__ = ["compared"]

CLIP = 0.5
DELTA = 1e-5
SETTINGS = ((150, 4 / 150, 0.61), (1_000, 0.01, 1.0), (10_000, 0.001, 0.8))  # rounds, q, z

Update = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def compared(quick: bool) -> Iterable[Table]:
    yield _clipping(quick)
    yield _accounting(quick)


def _clipping(quick: bool) -> Table:
    rows: list[Row] = []
    networks = {
        "MLP 64-32-10": (lambda: mlp(64, 32, 10), (1, 8, 8)),
        "LeNet 1x28x28": (lambda: lenet((1, 28, 28), 10), (1, 28, 28)),
    }
    for name, (make, shape) in networks.items():
        for batch in (4,) if quick else (4, 32, 256):
            rows += _clipped(name, make, shape, batch, 1 if quick else 9)
    return Table(
        "Clipping: milliseconds for a mean of clipped gradients",
        "network | records | who | CPU ms | ratio | largest difference from ours",
        rows,
        f"Each record's gradient scaled to at most {CLIP}, then the mean, no noise; float32. "
        "Opacus in its two modes: gradients of single records, and ghost clipping, which makes "
        "their norms alone and runs backward twice. Ratio: its CPU time over ours.",
    )


def _clipped(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], batch: int, repeats: int
) -> list[Row]:
    torch.manual_seed(batch)
    model = make()
    uniform_weights(model)
    x, y = torch.rand(batch, *shape), torch.randint(0, 10, (batch,))
    task, training = Task(model, cross_entropy, 10), LocalTraining(batch=batch, record_clip=CLIP)
    weights = task.layout.flatten(dict(model.named_parameters())).detach().clone()
    ours = Sending(task, training, x, y)
    named: dict[str, Update] = {
        "ours": lambda *_: ours.updates(weights, torch.arange(batch)[None])[0],
        "Opacus, single gradients": _by_record(_copied(make, model), batch),
        "Opacus, ghost clipping": _by_norms(_copied(make, model), batch),
    }
    spent = seconds(
        *(lambda value=value: value(x, y) for value in named.values()), repeats=repeats
    )
    mine = named["ours"](x, y)
    return [
        (
            name,
            f"{batch}",
            who,
            f"{1e3 * cost:.3g}",
            f"{cost / spent[0]:.2g}",
            f"{float((update(x, y) - mine).abs().max()):.0e}",
        )
        for (who, update), cost in zip(named.items(), spent, strict=True)
    ]


def _copied(make: Callable[[], nn.Module], model: nn.Module) -> nn.Module:
    copy = make()
    copy.load_state_dict(model.state_dict())
    return copy


def _by_record(model: nn.Module, batch: int) -> Update:
    wrapped = GradSampleModule(model)
    optimiser = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=CLIP,
        expected_batch_size=batch,
    )

    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimiser.zero_grad()
        cross_entropy(wrapped(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.clip_and_accumulate()
        return torch.cat([p.summed_grad.flatten() for p in wrapped.parameters()]) / batch

    return update


def _by_norms(model: nn.Module, batch: int) -> Update:
    wrapped = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=CLIP, use_ghost_clipping=True
    )
    optimiser = DPOptimizerFastGradientClipping(
        torch.optim.SGD(wrapped.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=CLIP,
        expected_batch_size=batch,
    )
    loss = DPLossFastGradientClipping(wrapped, optimiser, nn.CrossEntropyLoss())

    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimiser.zero_grad()
        loss(wrapped(x), y).backward()
        return torch.cat([p.grad.flatten() for p in wrapped.parameters()]) / batch

    return update


def _accounting(quick: bool) -> Table:
    rows = [row for setting in SETTINGS for row in _accounted(*setting, 1 if quick else 3)]
    return Table(
        f"Accounting: ε at δ = {DELTA:g}",
        "rounds, q, z | accountant | ε | over ours | CPU s | ratio",
        rows,
        "Poisson sampling, adding or removing a record. Each ε is an upper bound, so the smaller "
        "is the better; ours composes dp-accounting's privacy-loss distributions over a grid of "
        "its own, and adds what floating point can hide; Opacus' PRV adds the errors it allows "
        "itself (0.01 of ε). All with their defaults. Ratio: its CPU time over ours.",
    )


def _accounted(rounds: int, q: float, z: float, repeats: int) -> list[Row]:
    def mine() -> float:
        trade_off._composed.cache_clear()
        return trade_off.epsilon_at(Training(rounds, q, z), DELTA)

    def opacus(kind: type[PRVAccountant] | type[RDPAccountant]) -> float:
        accountant = kind()
        accountant.history = [(z, q, rounds)]
        return float(accountant.get_epsilon(DELTA))

    def google(kind: type[PLDAccountant] | type[RdpAccountant]) -> float:
        event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
        return float(kind().compose(event, rounds).get_epsilon(DELTA))

    named: dict[str, Callable[[], float]] = {
        "ours": mine,
        "dp-accounting, PLD": lambda: google(PLDAccountant),
        "dp-accounting, RDP": lambda: google(RdpAccountant),
        "Opacus, PRV": lambda: opacus(PRVAccountant),
        "Opacus, RDP": lambda: opacus(RDPAccountant),
    }
    spent = seconds(*named.values(), repeats=repeats)
    base = mine()
    rows: list[Row] = []
    for (who, find), cost in zip(named.items(), spent, strict=True):
        found = find()
        shown = (f"{found:.4f}", f"{found / base:.4f}", f"{cost:.3g}", f"{cost / spent[0]:.2g}")
        rows.append((f"{rounds:,}, {q:.3g}, {z:g}", who, *shown))
    return rows
