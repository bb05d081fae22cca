"""Scripts that make docs/benchmarks; a package, as some peers install one of this name."""
