"""Proof instead of measurement: noise that holds against anyone."""
