"""Many strengths at once: curves, and the front of leakage, utility and cost."""
