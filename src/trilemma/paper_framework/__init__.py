"""The paper, whole: its mechanism models, surrogate bounds, Algorithms 1 to 4 and closed forms."""
