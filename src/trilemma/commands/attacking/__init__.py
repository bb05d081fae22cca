"""`trilemma attack`: all attacks of a rung, one of them, or a verdict once more."""
