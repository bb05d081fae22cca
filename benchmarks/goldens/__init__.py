"""The goldens: two commits compared by what they measure."""
