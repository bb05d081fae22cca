"""What the pages of all benchmarks say alike."""
