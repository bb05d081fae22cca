"""Measuring: scenarios and prepared models, games played, records recovered, costs compared."""
