"""What the attacker believes: divergences, prior and posterior belief, confidence intervals."""
