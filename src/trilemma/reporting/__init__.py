"""Showing results to people.

`words/` says them in sentences and on a terminal, `page/` as one HTML file, `figures/` as plots.
"""
