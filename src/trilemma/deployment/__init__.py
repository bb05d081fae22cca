"""Where a verdict runs: nodes and their policies, adapters to frameworks, apps and jobs."""
