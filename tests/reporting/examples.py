"""Verdicts, fronts and galleries to be shown: made up, seeded, of the shape that tuning writes."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from trilemma.beliefs.belief import bernoulli_leakage, largest_success_rate
from trilemma.beliefs.blind import BlindGuess
from trilemma.beliefs.recovery import Criterion
from trilemma.estimation.costs import Costs, Spent
from trilemma.estimation.leakage import Estimate, client_leakage
from trilemma.estimation.paper_bounds import PaperBound
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.fronts.pareto import Front
from trilemma.tuning.fronts.points import RESOLUTION, Evaluated
from trilemma.tuning.plan import Effort
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.verdict import (
    AttackUsed,
    Beside,
    Candidate,
    Federation,
    Point,
    Prediction,
    Verdict,
)
from trilemma.tuning.surrogate.promises import Promise, SurrogateConstants

ATTACKS = ("dlg", "analytic", "inverting-gradients")
# name -> symbol, weakest and strongest parameter, spec, slowdown, bits, seconds
TUNED: dict[str, tuple[str, float, float, str, float, float, float]] = {
    "randomization": (
        "noise variance", 1e-6, 1e-2, "randomization:variance={}", 0.01, 1.0, 1.1,
    ),
    "compression": ("share kept", 1.0, 4e-4, "compression:keep={}", -0.3, 0.4, 1.2),
    "bounded-masks": ("mask bound", 2e-4, 2.0, "secret-sharing:bound={}", 0.02, 1.0, 1.3),
    "randomization+secret-sharing": (
        "noise variance", 1e-7, 1e-3, "randomization:variance={}+secret-sharing:ring_bits=32",
        1.9, 1.3, 8.0,
    ),
}  # fmt: skip


def curves(
    points: int = 20, units: int = 48, attacks: int = 3, seed: int = 0
) -> tuple[Evaluated, ...]:
    """No protection, each tuned mechanism at so many strengths, and two without a strength."""
    draw = random.Random(seed)
    made = [
        Evaluated(
            "none", None, protection="none", leakage=client_leakage(units, units), units=units,
            recovered=units, by_attack=_by_attack(units, attacks, draw),
            utility_loss=Estimate(0.0, 0.0, 0.0), efficiency_reduction=Estimate(0.0, 0.0, 0.0),
            metric=0.9273, bits=155152.0, seconds=0.000374,
        )
    ]  # fmt: skip
    for number, (name, about) in enumerate(TUNED.items()):
        symbol, weak, strong, spec, slow, bits, seconds = about
        for step in range(points):
            strength = step / (points - 1)
            value = weak * (strong / weak) ** strength
            rate = 1 / (1 + math.exp(14 * (strength - 0.45 - 0.05 * number)))
            hits = sum(draw.random() < rate for _ in range(units))
            loss = 0.35 * strength**4 + draw.gauss(0, 0.002)
            cost = slow * (strength if name == "compression" else 1.0)
            made.append(
                Evaluated(
                    name,
                    strength,
                    symbol,
                    value,
                    spec.format(value),
                    leakage=client_leakage(hits, units),
                    units=units,
                    recovered=hits,
                    by_attack=_by_attack(hits, attacks, draw),
                    metric=0.9273 - loss,
                    bits=155152.0 * (value if weak == 1.0 else bits),
                    seconds=0.000374 * seconds,
                    utility_loss=Estimate(loss, loss - 0.004, loss + 0.005),
                    efficiency_reduction=Estimate(cost, cost - 0.01, cost + 0.012),
                    note="Not to be deployed." if name == "bounded-masks" else "",
                )
            )
    made += [
        Evaluated(
            "secret-sharing", None, protection="secret-sharing:ring_bits=32",
            leakage=client_leakage(0, units), units=units,
            by_attack=_by_attack(0, attacks, draw), utility_loss=Estimate(0.0, 0.0, 0.0),
            efficiency_reduction=Estimate(1.88, 1.23, 2.53), metric=0.9273, bits=196712.0,
            seconds=0.0029,
        ),
        Evaluated(
            "paillier", None, protection="paillier:bits=3072,mode=blind", basis="cryptographic",
            utility_loss=Estimate(0.0, 0.0, 0.0),
            efficiency_reduction=Estimate(143.1, 136.2, 150.1), metric=0.9273, bits=2.1e6,
            seconds=0.26, note="The server reads nothing: this rests on the key.",
        ),
    ]  # fmt: skip
    return tuple(made)


def _by_attack(hits: int, attacks: int, draw: random.Random) -> dict[str, int]:
    found = {name: draw.randint(0, hits) for name in ATTACKS[:attacks]}
    return found | {ATTACKS[0]: hits}


def verdict(**changes: Any) -> Verdict:
    """A measured verdict that chose noise; `changes` replace its fields."""
    draw = random.Random(1)
    value = 0.00012702081646218197
    chosen = _candidate(
        "randomization", 1, value, f"randomization:variance={value}", "noise variance", draw
    )
    others = (
        replace(
            _candidate("compression", 2, 0.10106, "compression:keep=0.10106", "share kept", draw),
            tied=True,
        ),
        _candidate("secret-sharing", 3, None, "secret-sharing:ring_bits=32", None, draw),
        Candidate(
            "paillier", "cryptographic", True, True,
            "The server reads nothing: ciphertexts under a key of 3072 bits that it does not "
            "hold. This is no measurement; it rests on the key.",
            protection="paillier:bits=3072,mode=blind", costs=_costs("paillier", 143.0, 0.0),
            objective=Estimate(1.431, 1.36, 1.5), rank=4,
        ),
        Candidate(
            "bounded-masks", "measured", False, False,
            "Bounded masks are here to be measured; deploy secret-sharing instead.",
            smallest_leakage=0.42,
        ),
    )  # fmt: skip
    made = Verdict(
        limits=(
            "One round: an adversary that combines the updates of several rounds may learn more.",
            "Honest but curious: whoever deviates from the protocol is not covered.",
            "These attackers only (dlg, analytic, with the effort stated).",
            "An average over records, clients, models and draws: single records may leak more.",
            "The server is the adversary: what a curious client gets is shown beside it.",
        ),
        protection=parse_protection(str(chosen.protection)),
        basis="measured",
        statement=chosen.statement,
        advice="",
        leakage=chosen.leakage,
        problem=Problem(0.3),
        adversary=Adversary.SERVER,
        confidence=0.95,
        largest_success_rate=largest_success_rate(0.3),
        attacks=(
            AttackUsed("dlg", "DLG(iterations=300, history=60)", 3, True, 30, 30),
            AttackUsed("analytic", "Analytic()", 3, True, 30, 5),
        ),
        local_training=LocalTraining(batch=4),
        federation=Federation(
            "digits-mlp", 10, 1500, 4, 2410, Criterion("psnr", 20.0),
            BlindGuess(20.0, "mean of class 0", 2, 750, 0.00047, 0.086, 0.95), "2fa06d54" * 8,
        ),
        chosen="randomization",
        candidates=(chosen, *others),
        beside=(
            Beside("a curious client", "0 of 16 units recovered", client_leakage(0, 16), 16, 0),
        ),
        constants=SurrogateConstants(
            Estimate(1.0, 0.855, 1.0), 41492.246619, True,
            "a client's records were recovered in all of 3 units",
        ),
        promises=(
            _promise("randomization", "printed", "s", 4.81e-18, "randomization:variance={}", 12),
            _promise("randomization", "tight", "s", 1.71e-19, "randomization:variance={}", 12),
            _promise("paillier", "printed", "n", 0.898, None, None),
            _promise("secret-sharing", "printed", "r", 0.4033, "secret-sharing:bound={}", 0),
            _promise("compression", "printed", "ρ", 0.99999998, "compression:keep={}", 12),
        ),
        curves=curves(),
        predictions=tuple(
            Prediction("randomization", 10.0**power, rate, bernoulli_leakage(rate))
            for power, rate in ((-6, 1.0), (-5, 0.99), (-4, 0.3), (-3, 0.01), (-2, 0.0))
        ),
        show_records=True,
        reproduce="trilemma tune --scenario digits --budget 0.3 --seed 0",
        seed=0,
        training_seeds=(0, 1, 2, 3, 4),
        versions={"python": "3.11.7", "trilemma": "0.1.0", "code": "2dfaacd102639389"},
    )  # fmt: skip
    return replace(made, **changes)


def _candidate(
    name: str,
    rank: int,
    value: float | None,
    spec: str,
    symbol: str | None,
    draw: random.Random,
) -> Candidate:
    hits, units = (17, 185) if rank == 1 else (0, 33)
    loss = draw.uniform(0, 0.01)
    return Candidate(
        name, "measured", True, True,
        f"{hits} of {units} fresh units were recovered, which shows a success rate of at most "
        f"0.1688 at confidence 0.9917.",
        protection=spec, symbol=symbol, parameter=value, leakage=client_leakage(hits, units),
        worst_client=Estimate(0.298, 0.088, 0.569), any_record=Estimate(0.357, 0.288, 0.43),
        units=units + 24, by_attack={"dlg": hits, "analytic": 0},
        points=(
            Point(value, 6, 1, "explore", None),
            Point(value, units, hits, "walk", True),
        ),
        smallest_leakage=0.194, costs=_costs(name, 0.0113 * rank, loss),
        objective=Estimate(loss + 1e-4 * rank, loss - 0.002, loss + 0.003), rank=rank,
    )  # fmt: skip


def _costs(name: str, slow: float, loss: float) -> Costs:
    return Costs(
        protection=name, rounds=150, seeds=5, confidence=0.95, bandwidth=1e8,
        unprotected_metric=0.9272727131843567, protected_metric=0.9272727131843567 - loss,
        utility_loss=Estimate(loss, loss - 0.0023, loss + 0.0023), client_utility_loss=(),
        efficiency_reduction=Estimate(slow, slow - 0.014, slow + 0.014),
        unprotected=Spent(77576.0, 77576.0, 1.7e-4, 2.5e-5, 1.8e-4, 0.0),
        protected=Spent(77576.0, 77576.0, 1.7e-4, 5.6e-5 * (1 + slow), 1.85e-4, 0.0),
        bounds=(PaperBound(name, 1.0, 1.0),),
    )  # fmt: skip


def _promise(
    mechanism: str, form: str, symbol: str, value: float, spec: str | None, hits: int | None
) -> Promise:
    return Promise(
        mechanism, form, symbol, value, abs(value), spec.format(value) if spec else None, 0.3,
        None if hits is None else client_leakage(hits, 12), 12 if hits is not None else 0,
        hits or 0, 0.006, "" if spec else "No key has a modulus of 0.898: γ* encrypts nothing.",
    )  # fmt: skip


def front(**changes: Any) -> Front:
    """A front over the same curves."""
    from trilemma.tuning.fronts.front import hypervolume, knee, non_dominated

    points = curves(points=9)
    able = [(n, each.objectives) for n, each in enumerate(points) if each.objectives is not None]
    kept = sorted((able[n] for n in non_dominated([f for _, f in able])), key=lambda e: e[1])
    best = [found for _, found in kept]
    base = verdict()
    made = Front(
        limits=("The front is an estimate, not a certificate.", *base.limits[:2]),
        points=points, front=tuple(n for n, _ in kept), knee=kept[knee(best)][0],
        hypervolume=hypervolume(best, (1.0, 1.0, 1.0)), reference=(1.0, 1.0, 1.0),
        resolution=RESOLUTION, sampler="grid", evaluations=len(points) - 1, wanted=40,
        adversary=Adversary.SERVER, confidence=0.95, attacks=("dlg", "analytic"),
        effort=Effort(), bandwidth=1e8, federation=base.federation, seed=0,
        versions=base.versions, reproduce="trilemma pareto --evaluations 40",
    )  # fmt: skip
    return replace(made, **changes)


def gallery(records: int = 4) -> dict[str, Any]:
    """gallery.json: digits of noise, ever more of it."""
    draw = random.Random(2)
    originals = [[draw.randrange(256) for _ in range(64)] for _ in range(records)]

    def blurred(amount: float) -> list[list[int]]:
        return [
            [min(255, max(0, round(v + draw.gauss(0, amount)))) for v in row] for row in originals
        ]

    columns = [
        ("unprotected", "none", None, "none", 1.0),
        ("paper's optimum", "randomization", 4.81e-18, "randomization:variance=4.81e-18", 2.0),
        ("", "randomization", 2e-5, "randomization:variance=2e-05", 20.0),
        ("verdict", "randomization", 1.27e-4, "randomization:variance=0.000127", 90.0),
        ("", "randomization", 1e-3, "randomization:variance=0.001", 200.0),
    ]
    return {
        "gallery_version": 1,
        "shape": [1, 8, 8],
        "low": 0.0,
        "high": 1.0,
        "originals": originals,
        "columns": [
            {
                "label": label,
                "mechanism": mechanism,
                "parameter": value,
                "protection": spec,
                "attack": "dlg",
                "recoveries": blurred(amount),
                "psnr": [48.13 - 20 * math.log10(amount)] * records,
            }
            for label, mechanism, value, spec, amount in columns
        ],
    }
