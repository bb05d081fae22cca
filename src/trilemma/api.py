"""What trilemma does, as functions: the one way in, of Python and of the command line.

Nothing heavy is imported before a function is called. Each function takes every setting as a
typed keyword, keeps its run in the folder `out`, where the same call goes on after an
interruption, and returns its result as a value. Progress goes to stderr, or below a notebook's
cell, unless `quiet`.
"""

from __future__ import annotations

import inspect
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Unpack

from pydantic import BaseModel, ValidationError

from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.quantities import counted
from trilemma.settings import (
    Audited,
    AuditSettings,
    Federated,
    FederatedSettings,
    Searched,
    TuneSettings,
    command_line,
    python_line,
)
from trilemma.tuning.problem import (
    DEFAULT_BUDGET,
    DEFAULT_EFFICIENCY_WEIGHT,
    DEFAULT_UTILITY_WEIGHT,
    Problem,
)
from trilemma.tuning.request import NOT_OF_A_FRONT, Request, require_one_budget, told

if TYPE_CHECKING:
    from trilemma.attacks import KnowledgeLevel
    from trilemma.deployment.comparing import Difference
    from trilemma.evidence_pack.pack import Evidence
    from trilemma.evidence_pack.pack_check import Verified
    from trilemma.execution.journal import Run
    from trilemma.game.recovering.recovery_setup import Recovered
    from trilemma.game.scenario import Scenario, Source
    from trilemma.paper_framework.constants_of_federation import Estimated
    from trilemma.paper_framework.paper_result import Paper
    from trilemma.protection.protection import Protection
    from trilemma.records.records import Records
    from trilemma.tuning.attack_rates import Ratings
    from trilemma.tuning.audit.audit_result import Audit
    from trilemma.tuning.audit_canaries import CanaryAudit
    from trilemma.tuning.check_report import Examined
    from trilemma.tuning.replication import Replication
    from trilemma.tuning.results.pareto_front import Front, SamplerName
    from trilemma.tuning.results.verdict import Verdict

    Given = Scenario | Callable[..., Scenario] | str

__all__ = [
    "attack", "attack_verdict", "audit", "audit_canaries", "check", "deploy", "estimate",
    "evidence", "paper", "pareto", "recover", "tune", "verify",
]  # fmt: skip

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Model = TypeVar("_Model", bound=BaseModel)
_STUDY: Final = "study.sqlite"


def _lists(*models: type[BaseModel]) -> Callable[[_Function], _Function]:
    """Lets help() and inspect list the fields of the models among a function's keywords."""

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *own, rest = signature.parameters.values()
        types = _types(rest.annotation)
        fields = {
            name: field
            for model in models
            for name, field in model.model_fields.items()
            if name not in signature.parameters
        }
        listed = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=field.default,
                annotation=types[name],
            )
            for name, field in fields.items()
        ]  # fmt: skip
        whole = signature.replace(parameters=[*own, *listed])
        function.__signature__ = whole  # type: ignore[attr-defined]
        lines = [
            f"- `{name}`: {types[name]} = {field.default!r}. {field.description}"
            for name, field in fields.items()
        ]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", *lines])
        return function

    return decorate


def _types(annotation: str) -> dict[str, str]:
    """The types of the keywords that `Unpack[...]` stands for, as they are written."""
    keywords = globals()[annotation.removeprefix("Unpack[").removesuffix("]")]
    return {name: kind.__forward_arg__ for name, kind in keywords.__annotations__.items()}


@dataclass(frozen=True)
class _Federation:
    """A scenario as it was given; `named` says that a command can make it by its name."""

    given: Given
    federated: Federated
    named: bool

    @classmethod
    def of(cls, given: Given, options: Mapping[str, Any]) -> _Federation:
        """A scenario, a function that makes one for the options, or the name of either."""
        if isinstance(given, str):
            return cls(given, _made(Federated, scenario=given, **options), True)
        from trilemma.scenarios.sources import name_of  # imports torch, which takes seconds

        name = name_of(given)
        named = {} if name is None else {"scenario": name}
        return cls(given, _made(Federated, **named, **options), name is not None)

    @property
    def label(self) -> str:
        return self.federated.scenario if self.named else "the federation"

    def source(self) -> Source:
        """A scenario, or what makes it, in each worker anew."""
        from trilemma.scenarios.sources import source_of  # imports torch, which takes seconds

        return source_of(self.given, self.federated.options())

    def settings(self) -> dict[str, Any]:
        """What describes it among a run's settings."""
        given = self.federated.model_dump(mode="json")
        return given if self.named else {n: v for n, v in given.items() if n != "scenario"}

    def reproduce(self, command: str, *values: BaseModel) -> str:
        """The command that asks for the same again, or the call."""
        line = command_line if self.named else python_line
        return line(command, self.federated, *values)

    def origin(self) -> dict[str, Any]:
        """The settings that make the scenario; none where only Python can."""
        if not self.named:
            return {}
        return {"scenario": self.federated.scenario, **self.federated.options()}


def _made(model: type[_Model], **values: Any) -> _Model:
    try:
        return model(**values)
    except ValidationError as error:
        raise InvalidInput(" ".join(told(error))) from None


def _split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keywords that say which federation, and the others."""
    own = {name: settings[name] for name in settings if name in Federated.model_fields}
    return own, {name: value for name, value in settings.items() if name not in own}


@_lists(Federated, Request)
def tune(
    scenario: Given,
    request: Request | None = None,
    *,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Unpack[TuneSettings],
) -> Verdict:
    """The protection that keeps the budget at the least cost: `tune(scenario, budget=0.3)`.

    `scenario` may be a Scenario, a function that makes one, or its name ("digits",
    "my_module:make_scenario"), with options for what makes it (`clients`, `batch`, ...). Other
    settings are those of a Request, by keyword or as one. With a folder `out`, verdict.json and
    report.html are written there; `fresh` starts it over. The `workers` are processes of this
    machine, or of the Ray cluster at the address `ray`.
    """
    options, asked = _split(settings)
    federation, request = _Federation.of(scenario, options), Request.of(request, asked)
    described = {"command": "tune", **federation.settings(), **request.decides()}
    with _kept(out, described, fresh=fresh) as run:
        if run is not None and fresh:
            for name in ("verdict.json", "gallery.json", "report.html"):
                (run.folder / name).unlink(missing_ok=True)

        def kept(found: Verdict) -> Verdict:
            whole = replace(
                found,
                source=federation.origin(),
                reproduce=federation.reproduce("tune", request),
            )
            if run is not None:
                from trilemma.reporting.page.page import write_report

                whole.save(run.folder / "verdict.json")
                write_report(whole, run.folder)
            return whole

        return kept(_tuned(federation, request, run, workers, ray, kept, quiet=quiet))


def _tuned(
    federation: _Federation,
    request: Request,
    run: Run | None,
    workers: int,
    ray: str | None,
    kept: Callable[[Verdict], Verdict],
    *,
    quiet: bool,
) -> Verdict:
    from trilemma.execution.progress import Ticker

    with Ticker("tune", quiet=quiet) as ticker:
        ticker.say(f"reading {federation.label}")
        from trilemma.tuning.tuning_run import tune as find  # imports torch, which takes seconds

        source, answered = federation.source(), None if run is None else kept
        try:
            return find(
                *(source, request),
                run=run,
                ticker=ticker,
                workers=workers,
                ray=ray,
                answered=answered,
            )
        except TrilemmaError:
            if run is not None and (last := run.folder / "verdict.json").exists():
                ticker.tell(f"ended too soon; the last answer: {last}")
            raise


@contextmanager
def _kept(
    out: Path | str | None, described: Mapping[str, Any], *, fresh: bool
) -> Iterator[Run | None]:
    """The run in a folder, or None where nothing is kept."""
    if out is None:
        yield None
        return
    from trilemma.execution.journal import Run

    with Run.open(out, described, fresh=fresh) as run:
        yield run


@_lists(Federated, Request)
def check(
    scenario: Given,
    request: Request | None = None,
    *,
    quiet: bool = False,
    **settings: Unpack[TuneSettings],
) -> Examined:
    """What `tune` would attack, what it cannot and why, and how long it would take here."""
    from trilemma.execution.progress import Ticker

    options, asked = _split(settings)
    request = Request.of(request, asked)
    with Ticker("check", quiet=quiet) as ticker:
        federation = _Federation.of(scenario, options)
        ticker.say(f"reading {federation.label}")
        from trilemma.tuning.check_report import examine

        return examine(federation.source(), request, ticker.say)


@_lists(Federated, Request)
def pareto(
    scenario: Given,
    request: Request | None = None,
    *,
    evaluations: int = Searched.model_fields["evaluations"].default,
    units: int = Searched.model_fields["units"].default,
    sampler: SamplerName = "grid",
    storage: str | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Unpack[TuneSettings],
) -> Front:
    """The measured front of leakage, utility and efficiency, where no weights are known.

    It has `evaluations` points, of `units` games each. `storage` is the URL of a database that
    several machines share (None: a file in the folder `out`, or memory).
    """
    from trilemma.execution.progress import Ticker
    from trilemma.execution.run_files import sqlite_url

    options, asked = _split(settings)
    federation, request = _Federation.of(scenario, options), Request.of(request, asked)
    searched = Searched(evaluations=evaluations, units=units, sampler=sampler)
    # What decides a point: not how many there are, nor where the study is, nor the workers.
    described = {
        "command": "pareto",
        **federation.settings(),
        **request.decides(NOT_OF_A_FRONT),
        **searched.model_dump(mode="json", exclude={"evaluations"}),
    }
    reproduce = federation.reproduce("pareto", request, searched)
    with _kept(out, described, fresh=fresh) as run, Ticker("pareto", quiet=quiet) as ticker:
        ticker.say(f"reading {federation.label}")
        from trilemma.tuning.pareto.pareto_search import (
            pareto as measure,  # imports torch, for seconds
        )

        def save(found: Front) -> Front:
            whole = replace(found, reproduce=reproduce)
            if run is not None:
                whole.save(run.folder / "pareto.json")
            return whole

        study = "sqlite://" if run is None else sqlite_url(run.folder / _STUDY)
        if run is not None and fresh:
            (run.folder / _STUDY).unlink(missing_ok=True)
        front = save(
            measure(
                federation.source(),
                request,
                **searched.model_dump(),
                storage=storage or study,
                shared=storage is not None,
                run=run,
                workers=workers,
                ray=ray,
                ticker=ticker,
                report=save,
            )
        )
        if run is not None:
            from trilemma.reporting.page.page import write_report

            write_report(front, run.folder)
    return front


@_lists(Federated)
def paper(
    scenario: Given,
    *,
    budget: float = DEFAULT_BUDGET,
    form: Literal["printed", "corrected", "tight", "all"] = "all",
    utility_weight: float | tuple[float, ...] = DEFAULT_UTILITY_WEIGHT,
    efficiency_weight: float | tuple[float, ...] = DEFAULT_EFFICIENCY_WEIGHT,
    max_utility_loss: float | None = None,
    max_cost: float | None = None,
    success: str | None = None,
    models: int = 5,
    attempts: int = 10,
    seed: int = 0,
    out: Path | str | None = None,
    quiet: bool = False,
    **settings: Unpack[FederatedSettings],
) -> Paper:
    """The paper's algorithm: `paper("digits", budget=0.3)`.

    C₁, ξ and C₂ from T = `attempts` attacks on each client at M = `models` models, γ* of all four
    mechanisms in the `form` (all: printed, corrected, tight), and what is measured there. The
    folder `out` gets paper.json, report.html and figures.
    """
    from trilemma.execution.progress import Ticker
    from trilemma.execution.run_files import new_folder

    problem = Problem(budget, utility_weight, efficiency_weight, max_utility_loss, max_cost)
    folder = None if out is None else new_folder(out)
    with Ticker("paper", quiet=quiet) as ticker:
        federation = _Federation.of(scenario, settings)
        ticker.say(f"reading {federation.label}")
        from trilemma.beliefs.recovery import Criterion
        from trilemma.paper_framework.algorithm import (
            run_paper,  # imports torch, which takes seconds
        )

        criterion = Criterion.parse(success) if success else None
        source = federation.source()
        found = run_paper(
            source() if callable(source) else source,
            problem,
            form=form,
            criterion=criterion,
            models=models,
            attempts=attempts,
            seed=seed,
            say=ticker.say,
        )
    if folder is not None:
        from trilemma.reporting.figures.figure_files import draw_figures
        from trilemma.reporting.page.page import write_report

        found.save(folder / found.file)
        write_report(found, folder)
        draw_figures(folder / found.file, form="both")
    return found


@_lists(Federated)
def attack(
    scenario: Given,
    *,
    knows: KnowledgeLevel = "candidates",
    attacks: Sequence[str] | None = None,
    protection: Protection | str = "none",
    units: int = 32,
    server: Literal["curious", "malicious"] = "curious",
    restarts: int = 3,
    seed: int = 0,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Unpack[FederatedSettings],
) -> Ratings:
    """How often each attack is right in the same `units` games of one round.

    All attacks of who `knows` so much, or those named; without protection, and under one. A
    malicious `server` crafts the model that clients get, in each way that is known. The
    folder `out` gets attack.json, and recoveries.png of images that may be shown.
    """
    from trilemma.execution.progress import Ticker

    with Ticker("attack", quiet=quiet) as ticker:
        federation = _Federation.of(scenario, settings)
        ticker.say(f"reading {federation.label}")
        from trilemma.execution.run_files import write_json
        from trilemma.protection.specs import parse_protection
        from trilemma.tuning.attack_rates import rate  # imports torch, which takes seconds

        shield = parse_protection(protection) if isinstance(protection, str) else protection
        described = {
            "command": "attack",
            "knows": knows,
            "protection": shield.describe(),
            "units": units,
            "restarts": restarts,
            "seed": seed,
            **federation.settings(),
            **({} if attacks is None else {"attacks": list(attacks)}),
            **({} if server == "curious" else {"server": server}),
        }
        with _kept(out, described, fresh=fresh) as run:
            ratings = rate(
                federation.source(),
                knows=knows,
                attacks=attacks,
                protection=shield,
                units=units,
                restarts=restarts,
                seed=seed,
                server=server,
                run=run,
                workers=workers,
                ray=ray,
                ticker=ticker,
            )
            if run is not None:
                write_json(run.folder / "attack.json", ratings.as_json())
                if ratings.images:
                    from trilemma.reporting.figures.recovery_pictures import draw_suite

                    shape = ratings.scenario.input_spec.shape
                    draw_suite(run.folder / "recoveries.png", ratings.images, shape)
    return ratings


@_lists(Federated)
def recover(
    scenario: Given,
    attack: str,
    *,
    protection: Protection | str = "none",
    units: int = 20,
    success: str | None = None,
    restarts: int = 3,
    seed: int = 0,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Unpack[FederatedSettings],
) -> Recovered:
    """What one attack recovers from about `units` updates, without a protection and under one.

    `success` says when a record is recovered (psnr:20, ssim:0.6; None: chosen by what a blind
    guess reaches). The folder `out` gets attack.json, and recoveries.png where records may be
    shown.
    """
    federation = _Federation.of(scenario, settings)
    _say("attack", federation, quiet=quiet)
    from trilemma.execution.run_files import write_json
    from trilemma.game.recovering.recovery_setup import Prepared, Recovered
    from trilemma.protection.specs import parse_protection

    shield = parse_protection(protection) if isinstance(protection, str) else protection
    prepared = Prepared.of(
        federation.source(),
        attack,
        success,
        lambda clients: -(-units // clients),
        protection=shield,
        restarts=restarts,
        seed=seed,
    )
    described = {"command": "attack", **federation.settings(), **prepared.settings()}
    how: dict[str, Any] = {"workers": workers, "ray": ray, "show_progress": not quiet}
    with _kept(out, described, fresh=fresh) as run:
        protected, control = prepared.measured(run=run, **how)
        recovered = Recovered(prepared, shield.describe(), control, protected)
        if run is not None:
            write_json(run.folder / "attack.json", recovered.as_json())
            if prepared.scenario.show_records:
                from trilemma.reporting.figures.recovery_pictures import draw_recoveries

                unit = "dB" if prepared.guess.criterion.metric == "psnr" else ""
                records = prepared.originals(len(control.pictures))
                spec = prepared.scenario.input_spec
                path = run.folder / "recoveries.png"
                draw_recoveries(path, records, recovered.rows(), spec, unit)
    return recovered


@_lists(Federated)
def estimate(
    scenario: Given,
    *,
    attack: str = "dlg",
    models: int = 5,
    attempts: int = 10,
    success: str | None = None,
    literal: bool = False,
    seed: int = 0,
    profile: Path | str | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Unpack[FederatedSettings],
) -> Estimated:
    """The paper's constants C₁, ξ and C₂ of a federation (Algorithms 2 to 4).

    From T = `attempts` attacks on every client at M = `models` models; `success` as in `recover`,
    `literal` also by Algorithm 3's letter. The folder `out` gets estimate.json, and `profile` is
    the file that `solve` reads.
    """
    federation = _Federation.of(scenario, settings)
    _say("estimate", federation, quiet=quiet)
    from trilemma.execution.run_files import write_json
    from trilemma.game.recovering.recovery_setup import Prepared
    from trilemma.paper_framework.constants_of_federation import estimate as measured

    prepared = Prepared.of(
        federation.source(),
        attack,
        success,
        lambda _: models,
        models=models,
        attempts=attempts,
        batches="fixed",
        restarts=1,
        seed=seed,
    )
    described = {"command": "estimate", **federation.settings(), **prepared.settings()}
    how: dict[str, Any] = {"workers": workers, "ray": ray, "show_progress": not quiet}
    with _kept(out, described, fresh=fresh) as run:
        found = measured(prepared, literal=literal, run=run, **how)
        if run is not None:
            write_json(run.folder / "estimate.json", found.as_json())
        if profile is not None:
            from trilemma.paper_framework.profile_files import ProfileFile
            from trilemma.paper_framework.profiling import client_profiles

            profiles = client_profiles(prepared.scenario, seed=seed)
            ProfileFile(found.constants.by_datum.constants, profiles).save(Path(profile))
    return found


@_lists(Federated, Audited)
def audit(
    scenario: Given,
    setting: str,
    *,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Unpack[AuditSettings],
) -> Audit:
    """What a setting buys: `audit("digits", "nvflare.SVTPrivacy:epsilon=0.1")`.

    `setting` is a protection of ours, a framework's arguments (flower.LocalDpMod, nvflare.…,
    opacus.PrivacyEngine; several joined by "+"), or the path of a Flower app's pyproject.toml, a
    site's privacy.json or an NVFlare job. Attacked over the whole training with each kind of
    knowledge, proved where that can be, trained, and compared with the nearest setting that keeps
    the budget and the best of any kind. The folder `out` gets audit.json.
    """
    from trilemma.execution.progress import Ticker

    options, given = _split(settings)
    require_one_budget(given)
    asked = _made(Audited, **given)
    request = asked.request()
    counted("units (games of an attack)", asked.units)
    with Ticker("audit", quiet=quiet) as ticker:
        federation = _Federation.of(scenario, options)
        ticker.say(f"reading {federation.label}")
        from trilemma.tuning.audit.auditing import audit_setting  # imports torch, for seconds
        from trilemma.tuning.audit.framework_setting import Setting

        audited = Setting.parse(setting)
        described = {
            "command": "audit",
            "setting": audited.describe(),
            **federation.settings(),
            **asked.model_dump(mode="json"),
        }
        proved = {name: given[name] for name in ("budget", "at_most", "rounds") if name in given}
        with _kept(out, described, fresh=fresh) as run:
            found = audit_setting(
                federation.source(),
                audited,
                request,
                units=asked.units,
                command=federation.reproduce("tune", Request(knows="anyone", **proved)),
                run=run,
                workers=workers,
                ray=ray,
                ticker=ticker,
            )
            found = replace(found, reproduce=_audit_again(federation, setting, asked))
            if run is not None:
                found.save(run.folder / found.file)
    return found


def _audit_again(federation: _Federation, setting: str, asked: Audited) -> str:
    """The command that asks for the same audit again, or the call."""
    line = federation.reproduce("audit", asked)
    if federation.named:
        return line.replace("trilemma audit", shlex.join(["trilemma", "audit", setting]), 1)
    return line.replace("(scenario", f"(scenario, {setting!r}", 1)


def _say(command: str, federation: _Federation, *, quiet: bool) -> None:
    if not quiet:
        print(f"{command}: reading {federation.label}", file=sys.stderr, flush=True)


def attack_verdict(
    verdict: Verdict | Path | str,
    scenario: Given | None = None,
    *,
    public: Records | str | None = None,
    units: int = 48,
    restarts: int | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
) -> Replication:
    """Fresh games against what a verdict (or that of a run folder) chose, with every knowledge.

    The federation and the effort are the verdict's own, unless a `scenario` is given, other
    `public` records (or their name, module:object) or `restarts`. The `seed` is a random one
    unless it is given.
    """
    from trilemma.execution.progress import Ticker

    seed = secrets.randbelow(1 << 31) if seed is None else seed
    with Ticker("attack", quiet=quiet) as ticker:
        ticker.say(f"reading {verdict if isinstance(verdict, Path | str) else 'the verdict'}")
        from trilemma.scenarios.sources import with_public  # imports torch, which takes seconds
        from trilemma.tuning.replication import replicate
        from trilemma.tuning.results.verdict import Verdict

        found = Verdict.load(verdict) if isinstance(verdict, Path | str) else verdict
        source = _source_of(found, scenario)
        described = {
            "command": "attack",
            "verdict": found.as_json(),
            "scenario": scenario if isinstance(scenario, str) else None,
            "public": public if isinstance(public, str) else None,
            "units": units,
            "restarts": restarts,
            "seed": seed,
        }
        with _kept(out, described, fresh=fresh) as run:
            return replicate(
                source if public is None else partial(with_public, source, public),
                found,
                units=units,
                seed=seed,
                restarts=restarts,
                run=run,
                workers=workers,
                ray=ray,
                ticker=ticker,
            )


@dataclass(frozen=True)
class Deployed:
    """What `deploy` wrote, or in what an app that was there differs from the verdict."""

    verdict: str
    files: tuple[Path, ...] = ()
    differences: tuple[Difference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as plain values; docs/deploy.schema.json says what they are."""
        return {
            "schema_version": 1,
            "verdict": self.verdict,
            "files": [str(path) for path in self.files],
            "differences": [difference.as_json() for difference in self.differences],
        }


def deploy(
    verdict: Path | str,
    *,
    flower: Path | str | None = None,
    nvflare: Path | str | None = None,
    check: Path | str | None = None,
    scenario: str | None = None,
    scopes: Path | str | None = None,
) -> Deployed:
    """What a federation needs to run a verdict: `deploy("runs/first", flower="app")`.

    An app for Flower or a job for NVFlare is written into a folder, with the verdict and a policy
    for the nodes; or the app or exported job in `check` is compared with the verdict, field by
    field, which imports its code. `scenario` is named where the verdict does not say how it was
    made; NVFlare's `scopes` are a site's privacy.json that trilemma's filters join.
    """
    from trilemma.deployment.comparing import compare  # imports torch, which takes seconds
    from trilemma.deployment.policy import digest_of
    from trilemma.deployment.writing import write_deployment

    given = {"flower": flower, "nvflare": nvflare, "check": check}
    if len(named := {name: Path(path) for name, path in given.items() if path is not None}) != 1:
        raise InvalidInput(
            f"deploy does one of --flower, --nvflare and --check, got {len(named)} of them."
        )
    path = Path(verdict)
    path = path / "verdict.json" if path.is_dir() else path
    ((name, folder),) = named.items()
    files: list[Path] = []
    differences: list[Difference] = []
    if name == "check":
        differences = compare(path, folder)
    else:
        files = write_deployment(
            path,
            "flower" if name == "flower" else "nvflare",
            folder,
            scenario=scenario,
            scopes=None if scopes is None else Path(scopes),
        )
    return Deployed(digest_of(path.read_bytes()), tuple(files), tuple(differences))


def evidence(
    run: Path | str,
    *,
    out: Path | str | None = None,
    sign: Path | str | None = None,
    name: str = "",
) -> Evidence:
    """A pack of evidence on a run's verdict: `evidence("runs/first", sign="signer.pem")`.

    It is the new folder `out` (None: `evidence` in the run's), or a zip where that ends in .zip.
    The file `sign` holds the key that signs it, as `trilemma keys new --sign` makes it, and `name`
    says who that is.
    """
    from trilemma.evidence_pack.pack import write_pack  # imports torch, which takes seconds

    folder = Path(run) if Path(run).is_dir() else Path(run).parent
    target = folder / "evidence" if out is None else Path(out)
    return write_pack(Path(run), target, sign=None if sign is None else Path(sign), name=name)


def verify(pack: Path | str, *, signer: Path | str | None = None) -> Verified:
    """Whether a pack of evidence is whole and signed, by the public key in the file `signer`."""
    from trilemma.evidence_pack.pack_check import check_pack

    return check_pack(Path(pack), None if signer is None else Path(signer))


def _source_of(verdict: Verdict, scenario: Given | None) -> Source:
    """The federation of a verdict: its own, or the one that is given."""
    from trilemma.scenarios.sources import source_of  # imports torch, which takes seconds

    options = dict(verdict.source)
    name = options.pop("scenario", None)
    given: Given | None = scenario or (None if name is None else str(name))
    if given is None:
        raise InvalidInput(
            "the verdict was made in Python and does not say how to make its scenario; name "
            "it with --scenario module:function, or give it as scenario."
        )
    if not (isinstance(given, str) or callable(given)):
        options = {}  # it is made already
    return source_of(given, options)


def audit_canaries(
    verdict: Verdict | Path | str,
    scenario: Given | None = None,
    *,
    canaries: int = 500,
    seed: int | None = None,
    quiet: bool = False,
) -> CanaryAudit:
    """One training as a verdict (or that of a run folder) deploys, with canaries in it.

    From what is released follows a lower bound on what leaks, beside what was proved. The
    federation is the verdict's own, unless a `scenario` is given; the `seed` of the canaries is a
    random one unless it is given.
    """
    from trilemma.execution.progress import Ticker

    seed = secrets.randbelow(1 << 31) if seed is None else seed
    with Ticker("canaries", quiet=quiet) as ticker:
        ticker.say(f"reading {verdict if isinstance(verdict, Path | str) else 'the verdict'}")
        from trilemma.tuning.audit_canaries import audit_verdict
        from trilemma.tuning.results.verdict import Verdict

        found = Verdict.load(verdict) if isinstance(verdict, Path | str) else verdict
        source = _source_of(found, scenario)
        ticker.say(f"training with {canaries:,} canaries")
        return audit_verdict(source, found, canaries=canaries, seed=seed)
