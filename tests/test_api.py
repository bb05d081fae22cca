"""Every public name exists, and the light commands stay light."""

from __future__ import annotations

import importlib
import pkgutil
import shlex
import subprocess
import sys

import pytest

import trilemma

MODULES = ["trilemma"] + [
    module.name for module in pkgutil.walk_packages(trilemma.__path__, prefix="trilemma.")
]


@pytest.mark.parametrize("name", MODULES)
def test_every_name_in_all_exists(name: str) -> None:
    if name.startswith("trilemma.deployment.flower"):
        pytest.importorskip("flwr", reason="needs the extra `flower`")
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [])
    assert list(public) == sorted(public, key=_ruff_order), "keep __all__ sorted"
    for item in public:
        assert hasattr(module, item), f"{name}.__all__ lists {item}, which does not exist"


def _ruff_order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions."""
    if name.isupper():
        return 0, name
    return (1 if name[:1].isupper() else 2), name


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = trilemma.no_such_name


HEAVY = (
    "cryptography",
    "dp_accounting",
    "flwr",
    "gmpy2",
    "matplotlib",
    "optuna",
    "ray",
    "sklearn",
    "torch",
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        shlex.split("solve --c1 .9 --c2 200 --budget .3 --parameters 9 --delta 1 --sigma 1"),
    ],
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; sys.argv = ['trilemma', *sys.argv[1:]]\n"
        "from trilemma.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


COMMANDS = ("attack", "audit", "check", "deploy", "estimate", "paper", "pareto", "prove", "tune")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_question_is_a_function_of_the_library(name: str) -> None:
    """Whatever modules were imported before: no package has the name of a function."""
    assert callable(getattr(trilemma, name))
    assert f"trilemma.{name}" not in MODULES


def test_the_version_needs_no_metadata() -> None:
    code = (
        "import importlib.metadata as metadata\n"
        "def missing(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = missing\n"
        "import trilemma; print(trilemma.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == trilemma.__version__
