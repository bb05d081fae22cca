"""200 random `trilemma solve` calls against the paper's formulas in 60-digit arithmetic.

Written from the paper alone: distortions, Table 1's equation 2C₁ - C₂·mean TV = ε and the lemmas'
bounds are plain products, powers and sums here, γ* is found by bisection on γ itself, and nothing
of `trilemma.paper_framework` is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from trilemma.cli.main import main

CALLS, DIGITS = 200, 60


@dataclass(frozen=True)
class Case:
    """One call: what is given, as numbers."""

    form: str
    c1: float
    c2: float
    budget: float
    m: int
    deltas: tuple[float, ...]
    sigmas: tuple[float, ...]
    utility: tuple[float, ...]
    efficiency: tuple[float, ...]
    max_loss: float | None
    max_cost: float | None
    c4: float
    c5: float

    @property
    def words(self) -> list[str]:
        """The command line; numbers in full."""

        def joined(values: tuple[float, ...]) -> str:
            return ",".join(map(repr, values))

        flags = {
            "c1": repr(self.c1), "c2": repr(self.c2), "budget": repr(self.budget),
            "parameters": str(self.m), "delta": joined(self.deltas), "sigma": joined(self.sigmas),
            "form": self.form, "utility-weight": joined(self.utility),
            "efficiency-weight": joined(self.efficiency), "c4": repr(self.c4),
            "c5": repr(self.c5), "max-utility-loss": self.max_loss, "max-cost": self.max_cost,
        }  # fmt: skip
        given = ((name, value) for name, value in flags.items() if value is not None)
        return ["solve", *(w for name, value in given for w in (f"--{name}", str(value)))]


def cases() -> list[Case]:
    rng = np.random.default_rng(31)
    made = []
    for number in range(CALLS):
        clients = 1 if number % 3 == 0 else int(rng.integers(2, 5))
        alike = number % 6 == 1
        c1 = float(rng.uniform(0.05, 1.0))
        c2 = float(10 ** rng.uniform(0.5, 5))
        deltas = tuple(float(10 ** rng.uniform(-2, 0.5)) for _ in range(clients))
        sigmas = tuple(float(10 ** rng.uniform(-2, 0.5)) for _ in range(clients))
        if alike:
            deltas, sigmas = deltas[:1] * clients, sigmas[:1] * clients
        several = number % 4 == 2
        made.append(
            Case(
                form=("printed", "corrected", "tight")[number % 3 if number % 2 else number % 2],
                c1=c1, c2=c2, budget=float(rng.uniform(0.02, 0.98)),
                m=int(rng.choice([1, 2, 17, 2410, 10**6])), deltas=deltas, sigmas=sigmas,
                utility=tuple(rng.uniform(0, 3, clients if several else 1).tolist()),
                efficiency=tuple(rng.uniform(0, 1, clients if several else 1).tolist()),
                max_loss=float(10 ** rng.uniform(-5, 0)) if number % 5 == 0 else None,
                max_cost=float(10 ** rng.uniform(-5, 0)) if number % 7 == 0 else None,
                c4=float(rng.uniform(0.5, 2)), c5=float(rng.uniform(0.5, 2)),
            )
        )  # fmt: skip
    return made


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Case], dict[str, dict[str, object]]]:
    def run(case: Case) -> dict[str, dict[str, object]]:
        monkeypatch.setattr(sys, "argv", ["trilemma", *case.words, "--json"])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert not end.value.code, err
        return {load["mechanism"]: load for load in json.loads(out)["results"]}

    return run


def clipped(value: mpf) -> mpf:
    return min(mpf(1), max(mpf(0), value))


def distortion(case: Case, name: str, k: int, gamma: mpf) -> mpf:
    """TV_k(γ) as the paper has it; γ is s², n, r or ρ."""
    m, delta, sigma = case.m, mpf(case.deltas[k]), mpf(case.sigmas[k])
    if name == "randomization":
        scaled = gamma * mpmath.sqrt(m) / sigma**2  # s²·A for m equal σ
        return mpmath.erf(scaled / 4) if case.form == "tight" else min(mpf(1), scaled) / 100
    if name == "paillier":
        return clipped(1 - (2 * delta / gamma**2) ** m)
    if name == "secret-sharing":
        return clipped(1 - (2 * delta / (gamma + gamma)) ** m)
    return clipped(1 - gamma**m)


def neutral_values(case: Case, name: str) -> list[mpf]:
    """The clients' neutral values of γ; the distance is counted from one of them."""
    deltas = sorted(map(mpf, case.deltas))
    return {
        "randomization": [mpf(0)], "paillier": [mpmath.sqrt(2 * delta) for delta in deltas],
        "secret-sharing": deltas, "compression": [mpf(1)],
    }[name]  # fmt: skip


def mean(values: list[mpf]) -> mpf:
    return mpmath.fsum(values) / len(values)


def optimum(case: Case, name: str) -> mpf | None:
    """γ* with mean TV_k(γ*) = q (printed n and r: 1 - q, as they lack "1 -"); None: infeasible."""
    q = (2 * mpf(case.c1) - mpf(case.budget)) / mpf(case.c2)
    clients = range(len(case.deltas))
    if q <= 0:
        return neutral_values(case, name)[0]
    limit = mpf(1)
    if name == "randomization" and case.form != "tight":
        limit = mpf(1) / 100
    if q >= 1 or q > limit:
        return None
    wanted = 1 - q if case.form == "printed" and name in ("paillier", "secret-sharing") else q

    def short(gamma: mpf) -> bool:
        return bool(mean([distortion(case, name, k, gamma) for k in clients]) < wanted)

    # bisection on ln |γ - neutral| from far below to far above
    start, sign = neutral_values(case, name)[0], -1 if name == "compression" else 1
    low, high = mpf(-400), mpf(80) if name != "compression" else mpf(0)
    for _ in range(DIGITS * 4):
        middle = (low + high) / 2
        if short(start + sign * mpmath.exp(middle)):
            low = middle
        else:
            high = middle
    return start + sign * mpmath.exp(high)


def bounds(case: Case, name: str, k: int, gamma: mpf) -> tuple[mpf, mpf]:
    """ε_u and ε_e of client k: Lemmas F.1, F.2, G.1, G.2, H.1, H.3, I.1, I.2, E.4."""
    c4, c5, clients = mpf(case.c4), mpf(case.c5), len(case.deltas)
    tv = distortion(case, name, k, gamma)
    if name == "randomization":
        scaled = min(mpf(1), gamma * mpmath.sqrt(case.m) / mpf(case.sigmas[k]) ** 2)
        lemma = mpf(3) / 2 * scaled
        lemma = lemma if case.form == "printed" else min(mpf(1), lemma)
        return c4 * lemma, c5 * lemma
    if name == "compression":
        kept = case.m * (1 if case.form == "printed" else clients)
        return c4 * (1 - gamma**kept), c5 * tv
    if name == "secret-sharing" and case.form == "printed":
        return mpf(0), clients * case.m * mpmath.log(gamma)
    return mpf(0), c5 * tv


@pytest.mark.slow
def test_200_random_calls_agree_with_the_plain_formulas(
    call: Callable[[Case], dict[str, dict[str, object]]],
) -> None:
    solved = infeasible = capped = several = 0
    with mpmath.workdps(DIGITS):
        for case in cases():
            found = call(case)
            clients = range(len(case.deltas))
            for name, result in found.items():
                gamma = optimum(case, name)
                parameter = result["parameter"]
                assert isinstance(parameter, dict)
                if gamma is None:
                    assert result["regime"] == "infeasible"
                    assert not result["feasible"]
                    infeasible += 1
                    continue
                solved += 1
                several += len(set(zip(case.deltas, case.sigmas, strict=True))) > 1
                where = f"{name} of {case}"
                close(parameter["value"], gamma, where)
                nearest = min(
                    (abs(gamma - start) for start in neutral_values(case, name)),
                    key=lambda away: abs(away - mpf(parameter["distance"])),
                )
                close(parameter["distance"], nearest, where)
                if gamma > 0:
                    close(parameter["log_value"], mpmath.log(gamma), where)
                tv = mean([distortion(case, name, k, gamma) for k in clients])
                close(result["distortion"], tv, where)
                metric = 2 * mpf(case.c1) - mpf(case.c2) * tv
                assert float(abs(mpf(result["surrogate_leakage"]) - metric)) <= 1e-8 * max(
                    1.0, case.c2
                ), where
                pairs = [bounds(case, name, k, gamma) for k in clients]
                loss, cost = (mean([pair[side] for pair in pairs]) for side in (0, 1))
                close(result["utility_bound"], loss, where)
                close(result["efficiency_bound"], cost, where)
                wide = len(case.deltas)
                weights = [
                    tuple(mpf(w) for w in (own if len(own) == wide else own * wide))
                    for own in (case.utility, case.efficiency)
                ]
                objective = mean(
                    [weights[0][k] * pairs[k][0] + weights[1][k] * pairs[k][1] for k in clients]
                )
                close(result["objective"], objective, where)
                over = (case.max_loss is not None and loss > case.max_loss) or (
                    case.max_cost is not None and cost > case.max_cost
                )
                assert result["feasible"] is not over, where
                capped += over
    assert solved >= 500
    assert several >= 200
    assert infeasible >= 20
    assert capped >= 20


def close(ours: object, exact: mpf, where: str) -> None:
    """To 1e-8 of its size; what 60 digits leave of 0 is 0."""
    assert isinstance(ours, float | int), where
    assert float(abs(mpf(ours) - exact)) <= 1e-8 * float(abs(exact)) + 1e-40, where
