"""Measuring: scenarios, prepared models, recoveries, and the constants that follow from them."""
