"""Verdicts, fronts and galleries as JSON texts, read, shown and deployed."""

from __future__ import annotations

import io
import json
import math
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.reporting import examples

from benchmarks.fuzzing.hostile import noise, spoilt_json
from benchmarks.fuzzing.judging import require
from trilemma.deployment.nodes.verdict_terms import from_verdict
from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.learning import LocalTraining
from trilemma.reporting.page.page import write_report
from trilemma.reporting.run_results import Earlier, read_run
from trilemma.reporting.words.verdict_text import show_verdict
from trilemma.tuning.results.gallery import Gallery
from trilemma.tuning.results.pareto_front import Front
from trilemma.tuning.results.verdict import Verdict

__all__ = ["good_front", "good_verdict", "verdicts"]

SHOWN = 12  # one in so many accepted documents is made into a page
DEPLOYED = Deployment(
    LocalTraining(batch=4), 2410, clients=10, cohort=10, threshold=7, weighting="records",
    rounds=150, sampling_rate=4 / 150, server=ServerTraining(1.0), total_records=1875,
)  # fmt: skip


@cache
def good_verdict() -> Verdict:
    """A small one, with all that a verdict can hold."""
    whole = examples.verdict(curves=examples.curves(points=3))
    first, *others = whole.candidates
    proved = replace(first, certificate=examples.certificate())
    return replace(
        whole,
        candidates=(proved, *others[:3]),
        source={"scenario": "digits", "clients": 10, "alpha": 0.5},
    )


@cache
def good_front() -> Front:
    return examples.front()


@cache
def _plain(kind: str) -> dict[str, Any]:
    if kind == "gallery":
        return examples.gallery(2).as_json()
    return good_verdict().as_json() if kind == "verdict" else good_front().as_json()


def verdicts(draw: Random, folder: Path) -> None:
    """What is read is what stands there, in its domain, and gives the same text again."""
    kind = draw.choice(("verdict",) * 5 + ("front", "gallery"))
    text = _text(draw, kind)
    path = folder / ("pareto.json" if kind == "front" else f"{kind}.json")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    if kind == "verdict" and draw.random() < 0.2:
        terms = from_verdict(path, DEPLOYED)
        require(terms.deployment == DEPLOYED, "terms of another deployment")
        require(terms.protection.describe() == _chosen(text), "terms of another protection")
        return
    if kind == "gallery":
        value: Any = Gallery.load(path)
    else:
        value, _ = read_run(path)
        if isinstance(value, Earlier):
            _shown(value, folder)
            return
    _check(value, json.loads(text), type(value))
    if draw.randrange(SHOWN) == 0 and kind != "gallery":
        _shown(value, folder)


def _chosen(text: str) -> Any:
    from trilemma.protection.specs import parse_protection

    return parse_protection(json.loads(text)["protection"]).describe()


def _text(draw: Random, kind: str) -> str:
    chance = draw.random()
    if chance < 0.05:
        return json.dumps(_plain(kind))
    if chance < 0.1:
        return noise(draw, draw.choice((0, 3, 50)))
    return spoilt_json(draw, _plain(kind))


def _check(value: Any, document: dict[str, Any], kind: type[Any]) -> None:
    plain = value.as_json()
    path = Path("again.json")
    value.save(path)
    require(kind.load(path) == value, "another value from its own text")
    path.unlink()
    require(_within(document, plain), "what was read is not what stands there")
    _sound("", document)


def _within(document: Any, plain: Any, key: str = "") -> bool:
    """Whether all that the document says is in the value, texts of protections aside."""
    if isinstance(document, dict) and isinstance(plain, dict):
        return all(k in plain and _within(v, plain[k], k) for k, v in document.items())
    if isinstance(document, list) and isinstance(plain, list):
        same = len(document) == len(plain)
        return same and all(map(_within, document, plain))
    if key in AS_TEXT and isinstance(document, str):
        return plain is not None
    if isinstance(document, bool) or isinstance(plain, bool):
        return document is plain
    return bool(document == plain)


AS_TEXT = {  # what may be written in several ways
    *("protection", "knows", "families", "attacks", "utility_weight", "efficiency_weight"),
}
SHARES = {
    *("largest_success_rate", "true_positive_rate", "sampling_rate", "mean", "largest", "delta"),
    *("leakage of a certificate", "smallest_leakage", "promised"),
}
COUNTS = {
    *("units", "recovered", "control_units", "control_recovered", "restarts", "rounds", "rank"),
    *("failed_units", "pooled_clients", "clients", "records", "records_per_update", "parameters"),
    *("public_records", "games", "draws", "seeds", "survivors", "helpers", "person", "successes"),
    *("chosen_on", "reported_on", "evaluations", "wanted", "candidates", "knee"),
}


def _sound(key: str, value: Any) -> None:
    """The domains of numbers, by their names in the document."""
    if isinstance(value, dict):
        for name, item in value.items():
            _sound(name, item)
        if {"value", "low", "high"} == value.keys():
            low, middle, high = value["low"], value["value"], value["high"]
            slack = 1e-6 * (1 + abs(middle))
            require(low - slack <= middle <= high + slack, f"{key} is {value}")
            if key in ("leakage", "success", "worst_client"):
                require(-slack <= low and high <= 1 + slack, f"{key} is {value}")
        for part, whole in (
            *(("recovered", "units"), ("control_recovered", "control_units")),
            ("successes", "units"),
        ):
            if isinstance(value.get(part), int) and isinstance(value.get(whole), int):
                require(value[part] <= value[whole], f"{part} {value[part]} of {value[whole]}")
    elif isinstance(value, list):
        for item in value:
            _sound(key, item)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        require(math.isfinite(value), f"{key} is {value}")
        if key in SHARES:
            require(0 <= value <= 1, f"{key} is {value}")
        if key in COUNTS and isinstance(value, int):
            require(value >= 0, f"{key} is {value}")


def _shown(value: Any, folder: Path) -> None:
    """A page is made of whatever was accepted, and a verdict is told on a terminal."""
    page = write_report(value, folder).read_text("utf-8")
    require(page.rstrip().endswith("</html>"), "a page that is cut short")
    if isinstance(value, Verdict):
        out = io.StringIO()
        with redirect_stdout(out):
            show_verdict(value)
        for line in out.getvalue().split("\n"):
            require(line.isprintable(), f"a verdict prints {line!r:.200}")
