"""What is protected: the records of a client, as tensors, and the range of their entries."""
