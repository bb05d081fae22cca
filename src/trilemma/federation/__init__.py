"""Where it runs: rounds in this process, and in the framework that people use already."""
