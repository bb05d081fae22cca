"""Functions recorded once as a list of tensor operations, made shorter, and replayed."""
