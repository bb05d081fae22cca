"""Running long work: the journal of a run, replay, executors, progress; generic in the task."""
