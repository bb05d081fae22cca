"""Where a verdict runs: a node's own policy, adapters to frameworks, and what a federation needs."""
