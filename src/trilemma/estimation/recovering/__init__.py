"""The paper's Algorithms 2 and 3: units attacked, records recovered, C₁, C₂ and κ from counts."""
