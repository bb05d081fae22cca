"""The families that a federation can run, what each costs, and which is best."""
