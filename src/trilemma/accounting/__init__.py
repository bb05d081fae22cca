"""What is proved about leakage, in numbers alone: no model, no tensors, no data.

`certificate` is the bound that no attacker beats over a whole training, from `trade_off` (how
well one record can be told from its absence) and `influence` (how much noise stands
against one record).
"""
