"""An app in the structure of Flower's quickstart for PyTorch, on digits."""
