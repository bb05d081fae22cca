"""Where it runs: node protocol, policy and ledger, and the frameworks that people use already."""
