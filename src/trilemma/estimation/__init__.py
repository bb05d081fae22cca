"""Measuring what leaks."""
