"""Running long work, generic in the task: run folders, journal, replay, executors, progress.

A task is a value with a key: wherever it is done, and however often it was killed, its payload is
the same, so that a run that holds the payloads goes on where it was.
"""
