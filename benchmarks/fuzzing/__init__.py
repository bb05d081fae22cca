"""The doors that `benchmarks/fuzz.py` tries: each makes inputs, enters them and judges the result.

A door is a function of a seeded generator and an empty folder. It returns where its input was
accepted and is what it should be, raises one of trilemma's errors where the input was refused,
and `Wrong` where something was accepted that must not be. Whatever else it raises is a defect.
"""
