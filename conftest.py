"""What cannot be collected, or not without an optional extra, and how property tests draw."""

from __future__ import annotations

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

collect_ignore_glob = ["tests/deployment/flower/quickstart/*"]  # an app, for Flower to run
if find_spec("flwr") is None:
    collect_ignore_glob += [
        "src/trilemma/deployment/flower/*",
        "tests/deployment/flower/harness.py",
        "tests/deployment/flower/simulate.py",
    ]

# The same draws each time, and no clock: a busy machine must not fail a test.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")
