"""Command lines, run in this process up to where the work would start."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.fuzzing.documents import good_front, good_verdict
from benchmarks.fuzzing.hostile import name, noise, number, spoilt_text
from benchmarks.fuzzing.judging import require, require_sentence
from benchmarks.fuzzing.settings import COMMANDS, again, check_request
from trilemma import api
from trilemma.cli import main as cli
from trilemma.crypto.paillier import PrivateKey, check_bits
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.game.recovering.criterion import choose_criterion
from trilemma.scenarios import load_scenario
from trilemma.settings import command_line

__all__ = ["commands"]

RECOVERING = "trilemma.game.recovering.recovery_setup"

FLAGS = {
    command: {param.opts[0]: param for param in COMMANDS.commands[command].params if param.opts}
    for command in (
        *("attack", "check", "estimate", "explain", "figures", "pareto", "report", "runs"),
        *("solve", "tune"),
    )
}
GOOD = {
    "--scenario": ("digits", "digits-mlp"), "--clients": ("1", "2", "3"), "--batch": ("1", "2"),
    "--alpha": ("100", "1e3"), "--attack": ("dlg", "map", "idlg"), "--units": ("1", "20"),
    "--protection": ("none", "randomization:variance=1e-3", "secret-sharing"), "--seed": ("7",),
    "--success": ("psnr:20", "ssim:0.6"), "--device": ("cpu",), "--workers": ("1", "2"),
    "--out": ("out", "runs/a?b", "50%", "{x}", "a b"), "--budget": ("0.3", "0.1"),
    "--knows": ("rest", "anyone"), "--families": ("randomization,paillier", "compression"),
    "--attacks": ("dlg",), "--adversary": ("client", "server"), "--c1": ("0.9", "1"),
    "--c2": ("100", "1e-3"), "--parameters": ("2410", "1000000000"), "--delta": ("0.5",),
    "--sigma": ("1", "0.05"), "--form": ("printed", "corrected", "tight"), "--format": ("svg",),
    "--mechanism": ("all", "paillier"), "--sampler": ("grid", "nsga2"), "--restarts": ("1",),
    "--at-most": ("1 in 6", "17 %", "0.2"), "--candidates": ("38", "100"),
    "--claim": ("training", "one-round"), "--participation": ("known",),
}  # fmt: skip
LEAST = {
    "solve": ["--c1", "0.9", "--c2", "100", "--budget", "0.3", "--parameters", "2410", "--delta",
              "0.5", "--sigma", "1"],
    "report": ["run"], "figures": ["run"],
}  # fmt: skip


EXTREMES = ("0.3", "0.9", "1", "5e-324", "1e-300", "1e-100", "1e-17", "1e17", "1e50", "1e100", "7")


class Started(BaseException):
    """The work would start here; no error, which `main` would take for one in a user's code."""


def commands(draw: Random, folder: Path) -> None:
    """One line and exit code 2, or work that starts with what was asked; no folder is left."""
    for path, text in _results().items():
        (folder / path).parent.mkdir()
        (folder / path).write_text(text)
    (folder / "sigmas.npy").write_bytes(b"\x93NUMPY\x01\x00 damaged")
    before = set(folder.rglob("*"))
    words = [_possible(word) for word in _words(draw)]
    out, err = io.StringIO(), io.StringIO()
    code: Any = "started"
    with (
        _seams() as asked,
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["trilemma", *words]),
    ):
        try:
            cli.main()
        except Started:
            pass
        except SystemExit as end:
            code = end.code or 0
    _check_output(out.getvalue(), err.getvalue(), words)
    for command, values in asked:
        check_request(values[1])
        again(command, values)
    if code == 2:
        left = set(folder.rglob("*")) - before
        require(
            not left, f"a refused command leaves {sorted(map(str, left))[:3]} ({words!r:.300})"
        )
        # What is being read may be said before it is refused.
        reading = re.compile(r"(attack|check|estimate|pareto|tune): reading ")
        lines = [line for line in err.getvalue().splitlines() if not reading.match(line)]
        if lines:
            require(len(lines) == 1, f"{len(lines)} lines for {words!r:.300}: {lines!r:.400}")
            require_sentence(lines[0])
        raise InvalidInput(f"refused: {words!r:.60}.")
    require(code in ("started", 0, 1), f"exit code {code} for {words!r:.300}")


@cache
def _results() -> dict[str, str]:
    """The results of two runs, as they lie in their folders."""
    return {
        "run/verdict.json": json.dumps(good_verdict().as_json()),
        "front/pareto.json": json.dumps(good_front().as_json()),
    }


def _possible(word: str) -> str:
    """A word as the system can hand it over: no NUL, and what is no UTF-8 as Python shows it."""
    return os.fsdecode(word.replace("\0", "").encode("utf-8", "surrogatepass"))


def _check_output(out: str, err: str, words: list[str]) -> None:
    for text in (out, err):
        for line in text.split("\n"):
            require(line.isprintable(), f"{words!r:.200} prints {line!r:.200}")


@contextmanager
def _seams() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Work that only starts; scenarios and keys that are made once."""
    asked: list[tuple[str, tuple[Any, ...]]] = []

    def started(*_: Any, **__: Any) -> Any:
        raise Started

    def noted(command: str, *values: Any) -> str:
        asked.append((command, values))
        return command_line(command, *values)

    with ExitStack() as stack:
        for target in (
            "trilemma.tuning.tuning_run.tune", "trilemma.tuning.pareto.pareto_search.pareto",
            "trilemma.tuning.replication.replicate",
            "trilemma.reporting.page.page.write_report",
            f"{RECOVERING}.measure", "trilemma.tuning.attack_rates.rate",
            "trilemma.tuning.check_report.examine",
        ):  # fmt: skip
            stack.enter_context(patch(target, started))
        for target in ("_verdict", "_curves"):
            stack.enter_context(
                patch(f"trilemma.reporting.figures.figure_files.{target}", lambda *_: {})
            )
        stack.enter_context(patch.object(api, "command_line", noted))
        stack.enter_context(patch("trilemma.scenarios.sources.load_scenario", _scenario))
        stack.enter_context(patch(f"{RECOVERING}.choose_criterion", _criterion))
        stack.enter_context(patch.object(PrivateKey, "generate", _key))
        stack.enter_context(patch.object(cli, "app", COMMANDS))  # made once
        stack.enter_context(patch("webbrowser.open", lambda _: True))
        yield asked


_scenario = lru_cache(load_scenario)
_criterion = lru_cache(choose_criterion)
_generate = PrivateKey.generate


@lru_cache
def _one_key() -> PrivateKey:
    return _generate(System(), bits=256, insecure=True)


def _key(_: System, *, bits: int = 3072, insecure: bool = False) -> PrivateKey:
    check_bits(bits, insecure=insecure)
    return _one_key()


def _words(draw: Random) -> list[str]:
    kind = draw.random()
    if kind < 0.04:
        return [noise(draw, draw.randint(0, 9)) for _ in range(draw.randint(0, 3))]
    if kind < 0.1:
        words = ["keys", "new", draw.choice(("k", name(draw), "run"))]
        words += draw.choice(([], ["--bits", number(draw)], ["--public", name(draw)]))
        return words
    command = draw.choice(list(FLAGS))
    words = [command, *LEAST.get(command, [])]
    if (
        command in ("attack", "check", "tune", "pareto", "report", "figures", "runs")
        and draw.random() < 0.3
    ):
        words.insert(
            1, draw.choice(("run", "front", ".", "sigmas.npy", "run/verdict.json", name(draw)))
        )
    if command == "solve" and draw.random() < 0.6:
        words = [draw.choice(EXTREMES) if word[0].isdigit() else word for word in words]
    flags = [item for item in FLAGS[command] if item.startswith("--")]
    for flag in draw.sample(flags, min(len(flags), draw.choice((0, 1, 1, 2, 3, 5)))):
        words.append(flag)
        if not FLAGS[command][flag].is_flag:
            words.append(_value(draw, flag))
    if draw.random() < 0.15:
        place = draw.randrange(len(words))
        words[place] = spoilt_text(draw, words[place])
    return words


def _value(draw: Random, flag: str) -> str:
    kind = draw.random()
    if kind < 0.45 and flag in GOOD:
        return draw.choice(GOOD[flag])
    if flag == "--sigma-file":
        return draw.choice(("sigmas.npy", "run", name(draw)))
    if flag == "--storage":
        return draw.choice(("sqlite:///x.db", "nope", "postgresql://u:p@h/d", name(draw)))
    return number(draw) if kind < 0.8 else name(draw)
