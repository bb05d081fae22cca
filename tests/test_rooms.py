"""Imports go down only: a newcomer can read the rooms in order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "trilemma"

# A room may import rooms of a lower rank, and itself.
RANK = {
    "errors": 0,
    "entropy": 1,
    "naming": 1,
    "quantities": 1,
    "updates": 1,
    "learning": 2,
    "observations": 2,
    "records": 2,
    "crypto": 3,
    "beliefs": 3,
    "work": 3,
    "bounds": 4,
    "protections": 5,
    "attacks": 5,
    "federation": 6,
    "estimation": 7,
    "scenarios": 8,
    "tuning": 8,
    "reporting": 9,
    "testing": 9,
    "settings": 9,
    "api": 10,
    "commands": 11,
    "cli": 12,
    "__init__": 13,
    "__main__": 13,
}
# The same inside a room: by folder, or by module.
SUB_RANK = {
    "protections": {
        "parameter": 0,
        "round_info": 0,
        "texts": 0,
        "laws": 1,
        "transforms": 2,
        "transports": 2,
        "protection": 3,
        "transcripts": 3,
        "sessions": 4,
        "specs": 4,
        "rounds": 5,
        "twin": 6,
        "observing": 6,
        "__init__": 7,
    },
    "estimation": {
        "leakage": 0,
        "results": 0,
        "suitability": 0,
        "given": 1,
        "scenario": 2,
        "models": 3,
        "sharing": 3,
        "identity": 4,
        "paper_bounds": 4,
        "recipes": 4,
        "costs": 5,
        "playing": 5,
        "recovering": 5,
        "jobs": 6,
        "bench": 7,
        "__init__": 8,
    },
    "tuning": {
        "presets": 0,
        "problem": 0,
        "remaining": 1,
        "calibrating": 1,
        "request": 1,
        "results": 2,
        "families": 3,
        "plan": 4,
        "recipes": 4,
        "surrogate": 4,
        "certificate": 5,
        "choosing": 6,
        "fronts": 7,
