"""A verdict's proof held against its deployment as it runs: canaries and conformance tests."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from trilemma.accounting.trade_off import decision_bound
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.federation.canary_run import CanaryRun, run_canaries
from trilemma.federation.conformance import Finding, Residuals, records_bounded
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied
from trilemma.game.scenario import Scenario
from trilemma.learning import client_update
from trilemma.protection.round_info import RoundInfo
from trilemma.tuning.proof.attacks_on_proof import recipe_of

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.game.scenario import Source
    from trilemma.protection.protection import Protection
    from trilemma.tuning.results.certificate import Certificate
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["CanaryAudit", "audit_verdict", "suspects"]


@dataclass(frozen=True)
class CanaryAudit:
    """What canaries showed of a deployment, beside what was proved for it.

    `mu_proved` is μ = √R/z of the proof, which counts the noise of the fewest honest survivors;
    `mu_present` the μ of the noise of all who took part here; `mu_low` the lower bound on μ at
    95 % from `right` of `canaries` guesses, of which the proof allows a share of `decision` on
    average. `suspects` name what to look at where something is wrong.
    """

    protection: str
    rounds: int
    seed: int
    canaries: int
    right: int
    decision: float
    mu_low: float
    mu_proved: float
    mu_present: float
    findings: tuple[Finding, ...]
    suspects: tuple[str, ...]

    @property
    def alarm(self) -> bool:
        """Whether the deployment leaks more than was proved."""
        return self.mu_low > self.mu_proved

    @property
    def conforms(self) -> bool:
        """Whether there is no alarm, and every conformance test holds."""
        return not self.alarm and all(finding.holds for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "alarm": self.alarm, "conforms": self.conforms}


def audit_verdict(
    source: Source,
    verdict: Verdict,
    *,
    canaries: int = 500,
    seed: int = 0,
    messages: bool = True,
) -> CanaryAudit:
    """Train once as the verdict deploys, in this process, with canaries among the records.

    Keys, shares, masks and noise are the deployment's own, from the system's generator; `seed`
    draws the canaries. Without `messages` the sums are computed in the clear, with seeded noise.
    """
    chosen = verdict.choice
    if chosen is None or chosen.certificate is None or verdict.protection is None:
        raise InvalidInput(
            f"the verdict on {verdict.federation.scenario} proves nothing that canaries could be "
            "held against; audit one whose protection adds noise."
        )
    proof, recipe = chosen.certificate, recipe_of(chosen)
    assert recipe is not None, "of what has a certificate"
    own = verdict.deployment
    if proof.clips_updates or proof.sampling_rate < 1 or own.cohort < own.clients:
        raise InvalidInput(
            "canaries are added to gradients over all records, by all clients in every round; "
            "audit a verdict that was proved with full batches and without cohorts."
        )
    Seeded(seed)
    scenario = applied(recipe, source if isinstance(source, Scenario) else source())
    run = run_canaries(
        scenario,
        verdict.protection,
        replace(recipe, rounds=proof.rounds),
        clip=proof.record_clip,
        denominator=own.local_training.batch,
        canaries=canaries,
        seed=seed,
        messages=messages,
        public=scenario.public_records,
        weights=fresh_weights(scenario, [0], seed=seed)[0],
    )
    findings = (
        *run.findings,
        _of_clients(scenario, verdict.protection, System() if messages else Seeded(seed)),
        *_of_a_client(scenario, verdict.protection, recipe, proof, seed),
    )
    z, counted = proof.noise_multiplier, proof.survivors
    hiding = 1 if verdict.protection.transport.server_reads == "messages" else own.cohort
    return CanaryAudit(
        protection=verdict.protection.describe(),
        rounds=proof.rounds,
        seed=seed,
        canaries=canaries,
        right=run.count.right,
        decision=decision_bound(replace(proof.training(), records_of_person=1)),
        mu_low=run.count.mu,
        mu_proved=math.sqrt(proof.rounds) / z,
        mu_present=math.sqrt(proof.rounds * counted / hiding) / z,
        findings=findings,
        suspects=suspects(run, z, math.sqrt(proof.rounds) / z),
    )


def suspects(run: CanaryRun, noise_multiplier: float, mu_proved: float) -> tuple[str, ...]:
    """What to look at where the canaries' bound lies above the proof; none where it does not."""
    if run.count.mu <= mu_proved:
        return ()
    found = []
    low, influence, _ = run.count.influence
    if low > 1.05:
        found.append(
            f"a used canary counts {influence:.2g} times its clip in the sums: look at the clip "
            "(record_clip), the denominator, and the clients' weights"
        )
    _, noise, high = run.count.noise
    if high < noise_multiplier:
        found.append(
            f"the noise along a canary is {noise:.3g} clips a round, where {noise_multiplier:.3g} "
            "were proved: look at the variance, at who adds noise, and at its seeds"
        )
    return tuple(found) or (
        "neither clip nor noise explain it alone: look at what else leaves the nodes",
    )


def _of_clients(scenario: Scenario, protection: Protection, entropy: Seeded | System) -> Finding:
    """Whether clients' noises of one round are unrelated; sums show no more than their size."""
    clients, size = range(len(scenario.records)), scenario.task.layout.size
    info = RoundInfo.new(clients, Seeded(0), run="conformance")
    noises = Residuals(math.hypot(*(transform.scale for transform in protection.transforms)))
    for client in clients:
        noises.add(protection.apply(torch.zeros(size), client, info, entropy).values, 1)
    _, fresh = noises.findings()
    return replace(fresh, test="own noise")


def _of_a_client(
    scenario: Scenario, protection: Protection, recipe: Recipe, proof: Certificate, seed: int
) -> tuple[Finding, ...]:
    """Tests of what the first client sends of its own records, at one model."""
    weights = fresh_weights(scenario, [0], seed=seed)[0]
    records = scenario.records[0].to(scenario.device)
    training, info = recipe.local_training, RoundInfo.new([0], Seeded(seed), run="conformance")

    def sent(rows: torch.Tensor) -> torch.Tensor:
        inputs, labels = records.inputs[rows], records.labels[rows]
        with torch.no_grad():
            update = client_update(scenario.task, weights, inputs, labels, training)
        return protection.apply(update.double(), 0, info, Seeded(seed)).values

    bound = proof.record_clip / training.batch
    return records_bounded(sent, len(records), bound, seed)
