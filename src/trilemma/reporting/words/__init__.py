"""Results in plain words: sentences and table cells, and what a terminal prints.

Sentences are made here once; the page and the figures take them from here.
"""
