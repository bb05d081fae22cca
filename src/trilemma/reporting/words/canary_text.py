"""An audit by canaries, for people, in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from trilemma.tuning.audit_canaries import CanaryAudit

__all__ = ["show_canaries", "summary"]


def summary(audit: CanaryAudit) -> str:
    """Whether the deployment does what was proved of it."""
    if audit.alarm:
        return (
            f"ALARM: the deployment leaks more than was proved (mu at least {audit.mu_low:.3g}, "
            f"where {audit.mu_proved:.3g} was proved); stop it."
        )
    if not audit.conforms:
        return "The canaries raise no alarm, but a test of the code fails; see below."
    return "Nothing contradicts the proof. An audit finds faults; it does not prove their absence."


def show_canaries(audit: CanaryAudit) -> None:
    """Print the bound beside the proof, the tests, and what to look at."""
    out = Printer()
    out.text(summary(audit), bold=True)
    out.title("Canaries in one training as deployed")
    out.facts(
        (
            ("proved", f"mu = {audit.mu_proved:.3g} over {audit.rounds:,} rounds"),
            (
                "shown",
                (
                    f"mu at least {audit.mu_low:.3g}, at 95 % confidence: of {audit.canaries:,} "
                    f"canaries {audit.right:,} were told rightly to be used or not; the proof "
                    f"allows "
                    f"{audit.decision * audit.canaries:.0f} on average"
                ),
            ),
            (
                "to expect",
                (
                    f"somewhat below {audit.mu_present:.3g}, which is mu for the noise of all who "
                    "took part here"
                ),
            ),
            ("protection", audit.protection),
        )
    )
    out.title("Tests of the code")
    out.bullets(
        f"{finding.test}: {'holds' if finding.holds else 'FAILS'}; {finding.statement}."
        for finding in audit.findings
    )
    if audit.suspects:
        out.title("Look at")
        out.bullets(f"{suspect}." for suspect in audit.suspects)
