"""A folder for a node's PYTHONPATH, by which its policy binds Flower apps that bring no mod."""
