"""Choosing: from a request to the protection of least cost that keeps the budget.

`request` says what is wanted, `plan` resolves it for a federation, `tune` answers it.
"""
