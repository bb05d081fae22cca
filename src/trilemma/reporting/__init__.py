"""Showing results to people."""
