"""A node's own policy: the least that an app, a job or a server must keep to.

`trilemma-policy.toml` lies on the node, and its path comes from the node's own settings, never
with a message. Each key asks for something; one that is left out asks for nothing:

    smallest-cohort = 10           # clients whose updates are asked for together
    threshold = 7                  # clients whose sum may be opened
    protection = "randomization:variance=1e-5+secret-sharing"    # or a stronger one
    rounds = 150                   # that these data take part in, over all runs
    metrics = []                   # what may leave beside the update, by name
    model-check = "refuse"         # or "warn": what to do about a model that looks crafted
    verdict = "sha256:6b86b2..."   # the verdict that terms must come from (or a list of them)
    signer = "/etc/trilemma/signer.pub"  # an Ed25519 key that must have signed that verdict

Weaker terms are refused before any work: the server gets a fixed code, the node's log the reason.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from trilemma.crypto.signatures import is_signature, load_signer, signature_file
from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import claimed_terms
from trilemma.errors import InvalidInput, NotConfigured, PolicyRefused, UnknownName
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.quantities import whole

if TYPE_CHECKING:
    from trilemma.deployment.nodes.round_events import Event

__all__ = ["Policy", "digest_of", "weaknesses"]

_LOG: Final = logging.getLogger("trilemma.policy")
_READS: Final = ("messages", "sum", "nothing")  # what a server reads, from most to least
_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")
_KEYS: Final = (
    "smallest-cohort", "threshold", "protection", "rounds", "metrics", "model-check", "verdict",
    "signer",
)  # fmt: skip


@dataclass(frozen=True)
class Policy:
    """What a node asks of an app that wants an update of it; None and () ask nothing."""

    smallest_cohort: int | None = None
    threshold: int | None = None
    protection: Protection | None = None
    rounds: int | None = None
    metrics: tuple[str, ...] | None = None
    model_check: Literal["warn", "refuse"] | None = None
    verdicts: tuple[str, ...] = ()
    signer: Path | None = None

    def __post_init__(self) -> None:
        for name in ("smallest_cohort", "threshold", "rounds"):
            value = getattr(self, name)
            if value is not None and whole(name.replace("_", "-"), value) < 1:
                raise InvalidInput(f"{name.replace('_', '-')} must be at least 1, got {value}.")
        if self.model_check not in ("warn", "refuse", None):
            raise InvalidInput(
                f"model-check must be 'warn' or 'refuse', got {self.model_check!r}; leave it out "
                "to check no model."
            )
        noise = [part for part in _parts(self.protection) if isinstance(part, Randomization)]
        if any(part.clip is None for part in noise) and not (self.verdicts or self.signer):
            raise InvalidInput(
                "protection has noise without a clip, which bounds nothing by itself; state "
                "clip=..., or name the verdict that says how records are clipped."
            )
        for verdict in self.verdicts:
            if not isinstance(verdict, str) or not _DIGEST.fullmatch(verdict):
                raise InvalidInput(
                    f"verdict must be sha256: and 64 hexadecimal digits, got {verdict!r:.90}; "
                    "`sha256sum verdict.json` prints them."
                )

    @classmethod
    def load(cls, path: Path | str) -> Policy:
        """The policy in a file; a key that it does not know is an error."""
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise NotConfigured(
                f"the policy {path} cannot be read ({error.strerror}), and nothing leaves this "
                "node without it."
            ) from None
        except ValueError as error:
            raise NotConfigured(f"the policy {path} is not TOML: {error}.") from None
        try:
            return cls._of(document, Path(path).parent)
        except InvalidInput as error:
            raise NotConfigured(f"the policy {path} cannot be used: {error}") from None

    @classmethod
    def _of(cls, document: Mapping[str, Any], folder: Path) -> Policy:
        for name in document:
            if name not in _KEYS:
                raise UnknownName("key", name, _KEYS)
        metrics, verdict = document.get("metrics"), document.get("verdict", [])
        if metrics is not None and not _is_texts(metrics):
            raise InvalidInput(f"metrics must be a list of names, got {metrics!r:.90}.")
        protection, signer = document.get("protection"), document.get("signer")
        for name, text in (("protection", protection), ("signer", signer)):
            if text is not None and not isinstance(text, str):
                raise InvalidInput(f"{name} must be a text, got {text!r:.90}.")
        verdicts = [verdict] if isinstance(verdict, str) else verdict
        if not _is_texts(verdicts):
            raise InvalidInput(f"verdict must be a text or a list of them, got {verdict!r:.90}.")
        return cls(
            smallest_cohort=document.get("smallest-cohort"),
            threshold=document.get("threshold"),
            protection=None if protection is None else parse_protection(protection),
            rounds=document.get("rounds"),
            metrics=None if metrics is None else tuple(metrics),
            model_check=document.get("model-check"),
            verdicts=tuple(verdicts),
            signer=None if signer is None else folder / signer,
        )

    def as_toml(self) -> str:
        """The file that `load` reads; the signer's path as it stands."""
        lines = []
        for name, value in (
            ("smallest-cohort", self.smallest_cohort),
            ("threshold", self.threshold),
            ("protection", self.protection and self.protection.describe()),
            ("rounds", self.rounds),
            ("metrics", None if self.metrics is None else list(self.metrics)),
            ("model-check", self.model_check),
            ("verdict", list(self.verdicts) or None),
            ("signer", self.signer and str(self.signer)),
        ):
            if value is not None:
                lines.append(f"{name} = {_toml(value)}\n")
        return "".join(lines)

    def require(self, terms: Terms) -> None:
        """Raises where these terms are weaker than the policy."""
        if self.protection is not None:
            for weakness in weaknesses(terms.protection, self.protection):
                _refuse(f"protection: {weakness}")
        if self.metrics is not None and (more := set(terms.released) - set(self.metrics)):
            _refuse(f"metrics: {sorted(more)[0]!r} would leave it, beside the update")
        if self.verdicts or self.signer is not None:
            self._require_verdict(terms)

    def require_cohort(self, clients: int | None, threshold: int) -> None:
        """Raises where so many clients (None: nobody says how many), or a sum of so few, are less.

        `threshold` is 1 where the server reads single messages.
        """
        least = self.smallest_cohort
        if least is not None and clients is None:
            _refuse(
                f"smallest-cohort: {least} clients at least are asked for, and this framework "
                "does not tell a node how many take part"
            )
        if least is not None and clients is not None and clients < least:
            _refuse(f"smallest-cohort: {least} clients at least, and {clients} are asked")
        if self.threshold is not None and threshold < self.threshold:
            _refuse(
                f"threshold: a sum of {self.threshold} clients at least, and {threshold} would do"
            )

    def refusal(self, events: Sequence[Event]) -> str | None:
        """Why data with these events, the last one still to come, must not go on."""
        count = sum(event.rounds for event in events)
        if self.rounds is None or count <= self.rounds:
            return None
        return (
            f"the data took part in {count - 1} rounds, and the node's policy allows "
            f"{self.rounds}; train on other data."
        )

    def require_check(self, *, given: bool) -> None:
        """Refuses an app that looks at no model, where the policy asks for a look."""
        if self.model_check is not None and not given:
            _refuse("model-check: nothing here looks at models; see ModelCheck in docs/trust.md")

    def _require_verdict(self, terms: Terms) -> None:
        if terms.source is None:
            _refuse("verdict: these terms come from no verdict's file; use from_verdict")
        path = Path(terms.source)
        try:
            content = path.read_bytes()
        except OSError as error:
            _refuse(f"verdict: {path} cannot be read ({error.strerror})")
        if self.verdicts and (digest := digest_of(content)) not in self.verdicts:
            _refuse(f"verdict: {digest} is not one that it names")
        if self.signer is not None:
            _check_signature(self.signer, path, content)
        claimed = claimed_terms(path, content)
        if (terms.protection, terms.deployment) != (claimed.protection, claimed.deployment):
            _refuse(f"verdict: the terms are not those of {path}")


def weaknesses(protection: Protection, least: Protection) -> list[str]:
    """In what a protection is weaker than another; empty where it is at least as strong.

    The server reads no more; Gaussian noise comes first where the other has it, of no smaller
    multiple of the clip (of no smaller deviation where the other has no clip); a random share of
    the coordinates is no larger; what else the other has is there as it is. More parts are
    stronger.

    >>> weak = parse_protection("randomization:variance=1e-4,clip=1.0")
    >>> weaknesses(weak, parse_protection("randomization:variance=4e-4,clip=1.0"))
    ['noise of 0.01 times the clip, and 0.02 at least is asked for']
    """
    reads, most = protection.transport.server_reads, least.transport.server_reads
    if _READS.index(reads) < _READS.index(most):
        weaker = [f"the server reads {_read(reads)}, and {_read(most)} at most is asked for"]
    else:
        weaker = []
    others = (_weakness(protection, asked) for asked in least.transforms)
    return weaker + [sentence for sentence in others if sentence]


def _weakness(protection: Protection, asked: Transform) -> str | None:
    own = [part for part in protection.transforms if type(part) is type(asked)]
    if isinstance(asked, Randomization):
        first = next(iter(protection.transforms), None)
        if not isinstance(first, Randomization):
            return "no noise comes first, and it is asked for"
        return _less_noise(first, asked)
    if asked in own:
        return None
    if isinstance(asked, Compression) and own:
        keeps = [part.keep for part in own if isinstance(part, Compression)]
        share = max(keeps)
        if share <= asked.keep:
            return None
        return f"a share of {share:g} is sent, and {asked.keep:g} at most is asked for"
    return f"it has no {asked.describe()}, and that is asked for"


def _less_noise(own: Randomization, asked: Randomization) -> str | None:
    if asked.clip is None:
        scale, least, unit = own.scale, asked.scale, "deviation"
        if scale >= least * (1 - 1e-12):
            return None
        return f"noise of {unit} {scale:.4g}, and {least:.4g} at least is asked for"
    if own.clip is None:
        return f"updates are not clipped, and a clip of {asked.clip:g} is asked for"
    multiple, least = own.scale / own.clip, asked.scale / asked.clip
    if multiple >= least * (1 - 1e-12):
        return None
    return f"noise of {multiple:.4g} times the clip, and {least:.4g} at least is asked for"


def _parts(protection: Protection | None) -> tuple[Transform, ...]:
    return () if protection is None else protection.transforms


def _read(reads: str) -> str:
    return {"messages": "single messages", "sum": "the sum", "nothing": "nothing"}[reads]


def digest_of(content: bytes) -> str:
    """What a policy calls a verdict by: the hash of its file."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _check_signature(signer: Path, path: Path, content: bytes) -> None:
    """The file `verdict.signature.json` beside `verdict.json` is a signature by that key."""
    try:
        key = load_signer(signer)
    except InvalidInput as error:
        raise NotConfigured(f"the policy's signer cannot be used: {error}") from None
    beside = signature_file(path)
    try:
        document = beside.read_bytes()
    except OSError as error:
        _refuse(f"signer: {beside} cannot be read ({error.strerror})")
    if not is_signature(document, key, content):
        _refuse(f"signer: {beside} holds no signature of {path} by that key")


def _refuse(reason: str) -> NoReturn:
    raise PolicyRefused(f"the node's policy refuses these terms: {reason}.")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int):
        return str(value)
    return json.dumps(str(value))  # which TOML reads alike
