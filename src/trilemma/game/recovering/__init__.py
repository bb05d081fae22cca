"""Units attacked, records recovered and counted: what `attack` and the paper's algorithms need."""
