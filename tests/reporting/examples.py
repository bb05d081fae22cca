"""Verdicts, fronts and galleries to be shown: made up, seeded, of the shape that tuning writes."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from trilemma.beliefs.belief import largest_mean_success_rate
from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.federation.round_timing import Spent
from trilemma.game.costs import Costs
from trilemma.game.estimates import Estimate, client_leakage, success_rate
from trilemma.game.playing.claims import Claim
from trilemma.learning import LocalTraining
from trilemma.protection.specs import parse_protection
from trilemma.tuning.calibration.outcomes import Tested
from trilemma.tuning.choice.advice import headline
from trilemma.tuning.pareto.front_geometry import hypervolume, knee, non_dominated
from trilemma.tuning.request import Knows, Request
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.certificate import Certificate
from trilemma.tuning.results.gallery import Column, Gallery
from trilemma.tuning.results.pareto_front import Front
from trilemma.tuning.results.points import RESOLUTION, Point
from trilemma.tuning.results.verdict import (
    AttackUsed,
    Beside,
    Federation,
    PaperLeakage,
    Verdict,
)

CLAIM = Claim(rounds=150, candidates=38)
REQUEST = Request(budget=0.3)
P_MAX = largest_mean_success_rate(0.3, CLAIM.kappa)
ATTACKS: dict[str, Knows] = {
    "gaussian-posterior": "candidates", "map": "public", "dlg": "nothing", "idlg": "nothing",
    "inverting-gradients": "nothing", "analytic": "nothing",
}  # fmt: skip
VALUE = 0.0012702081646218197
RING = "secret-sharing:clip_range=8.0,precision_bits=18,ring_bits=32,max_weight=1500"
# name -> symbol, weakest and strongest parameter, spec, slowdown, bits, seconds
TUNED: dict[str, tuple[str, float, float, str, float, float, float]] = {
    "randomization": ("noise variance", 1e-4, 1.0, "randomization:variance={}", 0.01, 1.0, 1.1),
    "randomization+secret-sharing": (
        "noise variance", 1e-5, 1e-1, f"randomization:variance={{}}+{RING}", 1.9, 1.3, 8.0,
    ),
    "compression": ("share kept", 1.0, 4e-4, "compression:keep={}", -0.3, 0.4, 1.2),
    "bounded-masks": ("mask bound", 2e-4, 2.0, "secret-sharing:bound={}", 0.02, 1.0, 1.3),
}  # fmt: skip


def leaks(hits: int, games: int) -> Estimate:
    """Leakage of so many right guesses out of candidate sets of the claim."""
    return client_leakage(hits, games, kappa=CLAIM.kappa)


def curves(points: int = 20, units: int = 48, seed: int = 0) -> tuple[Point, ...]:
    """No protection, each tuned family at so many strengths, and two without a strength."""
    draw = random.Random(seed)
    made = [
        Point(
            "none", None, protection="none", leakage=leaks(units, units), units=units,
            recovered=units, by_attack={"gaussian-posterior": units},
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
            hits = sum(draw.random() < max(rate, CLAIM.kappa) for _ in range(units))
            loss = 0.35 * strength**4 + draw.gauss(0, 0.002)
            cost = slow * (strength if name == "compression" else 1.0)
            made.append(
                Point(
                    name,
                    strength,
                    symbol,
                    value,
                    spec.format(value),
                    leakage=leaks(hits, units),
                    units=units,
                    recovered=hits,
                    by_attack={"gaussian-posterior": hits},
                    metric=0.9273 - loss,
                    bits=155152.0 * (value if weak == 1.0 else bits),
                    seconds=0.000374 * seconds,
                    utility_loss=Estimate(loss, loss - 0.004, loss + 0.005),
                    efficiency_reduction=Estimate(cost, cost - 0.01, cost + 0.012),
                    note="Not to be deployed." if name == "bounded-masks" else "",
                )
            )
    made += [
        Point(
            "secret-sharing", None, protection=RING, leakage=leaks(units // 3, units),
            units=units, recovered=units // 3, by_attack={"gaussian-posterior": units // 3},
            utility_loss=Estimate(0.0, 0.0, 0.0), metric=0.9273, bits=196712.0, seconds=0.0029,
            efficiency_reduction=Estimate(1.88, 1.23, 2.53),
        ),
        Point(
            "paillier", None, protection="paillier:bits=3072,mode=blind", basis="cryptographic",
            utility_loss=Estimate(0.0, 0.0, 0.0),
            efficiency_reduction=Estimate(143.1, 136.2, 150.1), metric=0.9273, bits=2.1e6,
            seconds=0.26, note="The server reads nothing: this rests on the key.",
        ),
    ]  # fmt: skip
    return tuple(made)


def verdict(**changes: Any) -> Verdict:
    """A measured verdict that chose noise inside secret sharing; `changes` replace its fields."""
    chosen = candidate(
        "randomization+secret-sharing", 1, VALUE, f"randomization:variance={VALUE}+{RING}"
    )
    once = " Tested for one round only, so it cannot be chosen for a whole training."
    thin = candidate("compression", None, 0.0151, "compression:keep=0.0151", loss=0.21)
    others = (
        replace(
            candidate(
                "randomization+paillier", 2, VALUE,
                f"randomization:variance={VALUE}+paillier:bits=3072,mode=open",
            ),
            tied=True,
        ),
        candidate("randomization", 3, 0.31, "randomization:variance=0.31", loss=0.18),
        Candidate(
            "paillier", "cryptographic", True, True,
            "The server reads nothing: ciphertexts under a key of 3072 bits that it does not "
            "hold. This is no measurement; it rests on the key.", rounds=150,
            protection="paillier:bits=3072,mode=blind", costs=costs("paillier", 143.0, 0.0),
            objective=Estimate(1.431, 1.36, 1.5), rank=4,
        ),
        replace(thin, feasible=False, rounds=1, statement=f"{thin.statement}{once}"),
        Candidate(
            "secret-sharing", "measured", False, True,
            "The bare sum leaks more than the budget: 16 of 48 games.", rounds=150,
            units=48, smallest_leakage=0.52,
        ),
    )  # fmt: skip
    made = Verdict(
        headline=headline(REQUEST, CLAIM, P_MAX),
        limits=(
            "Honest but curious: a party that deviates from the protocol is not covered.",
            "These attackers only, with the knowledge stated.",
            "An average over records, clients, models and draws: single records may leak more.",
            "The server is the adversary: what a curious client gets is shown beside it.",
        ),
        protection=parse_protection(str(chosen.protection)),
        basis="measured",
        statement=chosen.statement,
        advice="",
        leakage=chosen.leakage,
        request=REQUEST,
        claim=CLAIM,
        largest_success_rate=P_MAX,
        attacks=tuple(
            AttackUsed(name, knows, "Attack(iterations=300)", 3, 24, 24 - 4 * n)
            for n, (name, knows) in enumerate(ATTACKS.items())
        ),
        deployment=Deployment(
            LocalTraining(batch=4), 2410, clients=10, cohort=10, threshold=7,
            weighting="records", rounds=150, sampling_rate=4 / 150, server=ServerTraining(1.0),
            total_records=1875,
        ),
        federation=Federation("digits-mlp", 10, 1500, 4, 2410, 297, True, "2fa06d54" * 8),
        chosen=chosen.name,
        candidates=(chosen, *others),
        beside=(
            Beside(
                "a curious client", "gaussian-posterior guesses the right record in 1 of 16 games",
                leaks(1, 16), 16, 1,
            ),
        ),
        curves=curves(),
        rounds=(),
        beliefs=(PaperLeakage("gaussian-posterior", 0.1937, 0.3312, 16, 6),),
        versions={"python": "3.11.7", "trilemma": "0.1.0", "code": "2dfaacd102639389"},
        show_records=True,
        reproduce="trilemma tune --scenario digits --budget 0.3 --seed 0",
    )  # fmt: skip
    return replace(made, **changes)


def candidate(
    name: str, rank: int | None, value: float | None, spec: str, loss: float = 0.004
) -> Candidate:
    """A family that passed all its tests, after one strength at which an attack did not."""
    symbol = "share kept" if name == "compression" else "noise variance"
    hits = {attack: max(1, 16 - 4 * n) for n, attack in enumerate(ATTACKS)}
    tests = [Tested("gaussian-posterior", value and value / 2, 90, 14, True)]
    tests += [Tested("map", value and value / 2, 60, 24, False)]
    tests += [Tested(attack, value, 90, found, True) for attack, found in hits.items()]
    counts = ", ".join(f"{attack} {found} of 90" for attack, found in hits.items())
    return Candidate(
        name, "measured", True, True,
        f"{symbol.capitalize()} {value:.3g}: every attack that was tried passed its own test on "
        f"fresh games (right guesses: {counts}), which shows a rate of at most {P_MAX:.3g}.",
        rounds=150, protection=spec, symbol=symbol, strength=value, leakage=leaks(16, 90),
        success=success_rate(16, 90), worst_client=Estimate(0.298, 0.088, 0.569), units=540,
        pooled_clients=7, tests=tuple(tests),
        points=(Tested("", value, 6, 1, None, "explore"), Tested("", value, 90, 16, True, "walk")),
        smallest_leakage=0.194, costs=costs(name, 0.0113 * (rank or 9), loss),
        objective=Estimate(loss + 1e-4 * (rank or 9), loss - 0.002, loss + 0.003), rank=rank,
    )  # fmt: skip


def costs(name: str, slow: float, loss: float) -> Costs:
    """What a protection costs a federation whose accuracy is .936 without it."""
    return Costs(
        protection=name, rounds=150, seeds=5, confidence=0.95, bandwidth=1e8,
        unprotected_metric=0.9361, protected_metric=0.9361 - loss,
        utility_loss=Estimate(loss, loss - 0.0023, loss + 0.0023), client_utility_loss=(),
        efficiency_reduction=Estimate(slow, slow - 0.014, slow + 0.014),
        unprotected=Spent(77576.0, 77576.0, 1.7e-4, 2.5e-5, 1.8e-4, 0.0),
        protected=Spent(77576.0, 77576.0, 1.7e-4, 5.6e-5 * (1 + slow), 1.85e-4, 0.0),
    )  # fmt: skip


def certificate(**changes: Any) -> Certificate:
    """A proof for the noise of ten clients, seven of which survive."""
    made = Certificate(
        level="record", noise_multiplier=0.61, variance=0.000832, record_clip=0.5, server_lr=8.0,
        rounds=150, sampling_rate=4 / 150, participation="secret", survivors=6, helpers=1,
        person=1, success={2: 0.806, 10: 0.401, 38: 0.219, 100: 0.142, 1000: 0.0493},
        leakage=0.2994, worst_candidates=7, epsilon=10.37, delta=1e-5, true_positive_rate=0.1423,
        known={2: 0.92, 10: 0.66, 38: 0.46, 100: 0.36, 1000: 0.21},
    )  # fmt: skip
    return replace(made, **changes)


def front(**changes: Any) -> Front:
    """A front over the same curves."""
    points = curves(points=9)
    able = [
        (n, point.objectives) for n, point in enumerate(points) if point.objectives is not None
    ]
    kept = sorted((able[n] for n in non_dominated([f for _, f in able])), key=lambda e: e[1])
    best = [found for _, found in kept]
    base = verdict()
    made = Front(
        limits=("The front is an estimate, not a certificate.", *base.limits[:2]),
        points=points, front=tuple(n for n, _ in kept), knee=kept[knee(best)][0],
        hypervolume=hypervolume(best, (1.0, 1.0, 1.0)), reference=(1.0, 1.0, 1.0),
        resolution=RESOLUTION, sampler="grid", evaluations=len(points) - 1, wanted=40,
        request=REQUEST, claim=CLAIM, attacks=("gaussian-posterior",),
        federation=base.federation, versions=base.versions,
        reproduce="trilemma pareto --evaluations 40",
    )  # fmt: skip
    return replace(made, **changes)


def gallery(records: int = 8) -> Gallery:
    """Pictures of noise: all guessed right without protection, one of eight at the verdict."""
    draw = random.Random(2)

    def pictures() -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(draw.randrange(256) for _ in range(64)) for _ in range(records))

    target = {"unprotected": pictures(), "verdict": pictures()}
    columns = []
    for label, spec, rounds in (("unprotected", "none", 1), ("verdict", TUNED_SPEC, 150)):
        for attack in ATTACKS:
            right = tuple(label == "unprotected" or n == 3 for n in range(records))
            others = pictures()
            guessed = tuple(
                mine if hit else other
                for mine, other, hit in zip(target[label], others, right, strict=True)
            )
            made = guessed if attack == "gaussian-posterior" else pictures()
            columns.append(Column(label, spec, attack, rounds, made, guessed, right))  # type: ignore[arg-type]
    return Gallery((1, 8, 8), 0.0, 1.0, target, tuple(columns))  # type: ignore[arg-type]


TUNED_SPEC = f"randomization:variance={VALUE}+{RING}"


def earlier(version: int = 2) -> dict[str, Any]:
    """verdict.json as it was before the candidate set."""
    return {
        "schema_version": version,
        "limits": ["One round: an adversary that combines several may learn more."],
        "protection": "randomization:variance=0.00012702081646218197",
        "basis": "measured",
        "leakage": {"value": 0.218, "low": 0.167, "high": 0.275},
        "problem": {"budget": 0.3, "utility_weight": 1.0},
        "candidates": [
            {
                "name": "randomization",
                "protection": "randomization:variance=0.00012702081646218197",
                "leakage": {"value": 0.218, "low": 0.167, "high": 0.275},
                "points": [{"units": 185, "recovered": 17}],
            }
        ],
        "curves": [{"mechanism": "none"}],
    }
