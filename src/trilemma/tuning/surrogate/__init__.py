"""The paper's own choice: its closed forms solved, and then attacked."""
