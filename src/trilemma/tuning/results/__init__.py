"""What a tuning leaves: the verdict, its pictures, and where they came from."""
