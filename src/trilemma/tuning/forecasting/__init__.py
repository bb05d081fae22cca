"""How long a tuning will take: the work that it plans, and what a unit of it has taken so far."""
