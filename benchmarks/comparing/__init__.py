"""The parts of `benchmarks/peers.py`: each compares one thing of ours with well-tuned others."""
