"""The weakest strength that is shown to keep a budget, by exact tests on fresh units."""
