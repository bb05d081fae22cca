"""What a node brings to the protocol: its own settings and files, and what it must remember."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, cast

import torch

from trilemma.deployment.nodes.identities import NodeIdentity
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.nodes.round_events import Event
from trilemma.deployment.nodes.round_record import RoundRecord
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind, Terms
from trilemma.deployment.policy import Policy
from trilemma.errors import NotConfigured, ProtocolViolation, TrilemmaError
from trilemma.protection.sessions import ProtectedClient
from trilemma.protection.transports.base import Transport
from trilemma.quantities import whole

__all__ = ["Node", "Store"]

_PREFIX: Final = "trilemma"
_SIMULATED: Final = ", or in a simulation {} in the environment of its SuperLink"


class Store(Protocol):
    """What a framework keeps for a node between messages, written before a reply leaves."""

    @property
    def memory(self) -> MutableMapping[str, Any]:
        """Integers and bytes by name."""

    @property
    def change(self) -> torch.Tensor | None:
        """A vector [m]: what was learnt since the server's model, where it can't read more."""

    def keep_change(self, change: torch.Tensor) -> None:
        """Put another vector [m] in its place."""


@dataclass(frozen=True)
class Node:
    """One node's side of a run; `number` is the node's, in `run`.

    All that decides whom it trusts comes from the node's own configuration (`--node-config`), or
    from the environment variable in brackets, never from a message: `trilemma-key` [TRILEMMA_KEY],
    the file with the Paillier key; `trilemma-identity` [TRILEMMA_IDENTITY] and `trilemma-peers`
    [TRILEMMA_PEERS], its Ed25519 key, beside which it keeps a record of its rounds, and the pinned
    public keys of all nodes;
    `trilemma-ledger` [TRILEMMA_LEDGER], the file in which it counts what the data named
    `trilemma-data` [TRILEMMA_DATA] took part in; `trilemma-policy` [TRILEMMA_POLICY], the file of
    its policy, which the app's terms have to keep to; `trilemma-min-cohort` and
    `trilemma-threshold`, which override the app's terms.
    """

    terms: Terms
    run: int
    number: int
    config: Mapping[str, Any]
    store: Store

    @classmethod
    def of(
        cls, terms: Terms, run: int, number: int, config: Mapping[str, Any], store: Store
    ) -> Node:
        """A node with this configuration, under terms that it may have tightened."""
        for setting, name in (("min_cohort", "min-cohort"), ("threshold", "threshold")):
            if (value := config.get(f"{_PREFIX}-{name}")) is not None:
                own: dict[str, Any] = {setting: whole(f"{_PREFIX}-{name}", value)}
                terms = replace(terms, **own)
        node = cls(terms, run, number, config, store)
        if node.policy is not None:
            node.policy.require(terms)
        return node

    @cached_property
    def policy(self) -> Policy | None:
        """What its owner asks of every app, whatever the app says."""
        path = self._path("policy")
        return None if path is None else Policy.load(path)

    def check(self, stage: Stage) -> None:
        """Raises unless the stage is for this node, in this run, under its own terms."""
        if stage.run != self.run:
            raise ProtocolViolation(
                f"the message belongs to run {stage.run}, and this is run {self.run}; "
                "it is foreign."
            )
        if stage.version:
            return
        stage.seat(self.number)
        if stage.terms != self.terms.describe():
            raise ProtocolViolation(
                f"the server asks for [{stage.terms}], but this node is set to "
                f"[{self.terms.describe()}]; give both the same terms."
            )
        deployment = self.terms.deployment
        if deployment and stage.kind == "train" and stage.size != deployment.parameters:
            raise ProtocolViolation(
                f"the server's model has {stage.size} parameters, but {deployment.parameters} "
                "were measured; deploy the model that was measured, or measure again."
            )
        least = max(self.terms.min_cohort, self.terms.threshold_of(len(stage.cohort)))
        if len(stage.cohort) < least:
            raise ProtocolViolation(
                f"this node is summed with {least} clients at least, and the server names "
                f"{len(stage.cohort)}."
            )
        if self.policy is not None:
            self.policy.require_cohort(
                len(stage.cohort), self.terms.threshold_of(len(stage.cohort))
            )
        self.terms.require_room(len(stage.cohort))

    @property
    def model_check(self) -> str:
        """What follows where a look at the model finds something: warn, or refuse."""
        asked = None if self.policy is None else self.policy.model_check
        return asked or "warn"

    # Sessions

    def sessions(self, stage: Stage) -> dict[str, ProtectedClient]:
        """The session of each lane that the stage has a message for: new, or as it was left."""
        if not all(self._key(stage, lane) in self._memory for lane in stage.blobs):
            self._begin(stage)
        made = {}
        for lane in self.terms.lanes(stage.kind, stage.size):
            if lane in stage.blobs:
                made[lane] = self._session(stage, lane)
        if not made:
            raise ProtocolViolation("a stage carries no message for any lane; it is cut short.")
        return made

    def reader(self, stage: Stage) -> ProtectedClient:
        """The session that opens a sum: the one that sent an update to it, or a new one."""
        return self._session(stage, "update", seat=0)

    def remember(
        self, stage: Stage, sessions: dict[str, ProtectedClient], *, answered: bool
    ) -> None:
        """Keeps the sessions, and that the round was answered; forgets those before it."""
        memory = self._memory
        for lane in sessions:
            memory.pop(self._key(stage, lane), None)  # for good, if the record refuses
        shares = {lane: item.promised for lane, item in sessions.items() if item.promised}
        if shares and self._record is not None:
            self._record.promise(stage, shares)
        for lane, session in sessions.items():
            memory[self._key(stage, lane)] = session.export()
        if not answered:
            return
        memory[f"last {stage.kind}"] = stage.number
        for key in self._keys(stage):
            if int(key.split()[1]) <= stage.number and key.split()[2] != stage.session:
                del memory[key]

    def spend(self, stage: Stage) -> None:
        """Notes that a round was answered, and counts it in the ledger."""
        if self._record is not None:
            self._record.answer(stage)
        self.count(stage.kind, len(stage.cohort))

    def count(self, kind: Kind, clients: int) -> None:
        """Counts in the ledger an asking of so many clients; raises where it is one too many."""
        if (book := self._book()) is None:
            return
        ledger, data = book
        if kind == "train":
            ledger.spend(data, self.terms.event(clients), self._refusal)
        else:
            ledger.count(data, kind)

    def query(self, action: str) -> None:
        """Counts a query to the app; raises unless the terms name it."""
        if action not in self.terms.queries:
            raise ProtocolViolation(
                f"this node answers no query {action!r:.80}; name it in the terms' queries, whose "
                "answers leave unprotected."
            )
        if (book := self._book()) is not None:
            ledger, data = book
            ledger.count(data, "query")

    def write(self, stages: Iterable[Stage]) -> None:
        """What was noted goes to the disk, which must be before the reply to these stages leaves.

        Where it cannot, their sessions are over.
        """
        if self._record is None:
            return
        try:
            self._record.write()
        except TrilemmaError:
            for key in {self._key(stage, lane) for stage in stages for lane in stage.blobs}:
                self._memory.pop(key, None)
            raise

    def _begin(self, stage: Stage) -> None:
        if any(stage.blobs.values()):
            raise ProtocolViolation(
                f"this node knows nothing of that session of round {stage.number}: it is replayed "
                "or foreign, or the node was restarted."
            )
        if stage.number <= (last := self._number(f"last {stage.kind}")):
            raise ProtocolViolation(
                f"round {stage.number} was answered (the last was {last}); it is replayed. Keep "
                "one ProtectedGrid for a run."
            )
        if stage.kind == "train" and (book := self._book()) is not None:
            ledger, data = book  # before keys are made, so that others can do without this node
            ledger.check(data, self.terms.event(len(stage.cohort)), self._refusal)
        if self._record is not None:
            self._record.begin(stage)
        for key in self._keys(stage):
            if int(key.split()[1]) >= stage.number:
                del self._memory[key]  # the server has given that session up

    def _session(self, stage: Stage, lane: str, seat: int | None = None) -> ProtectedClient:
        protection, size = self.terms.lanes(stage.kind, stage.size)[lane]
        round = stage.round(lane, self.terms.threshold_of(len(stage.cohort)))
        if seat is None:
            seat = stage.seat(self.number)
        kept = self._memory.get(self._key(stage, lane))
        return ProtectedClient.start(
            protection,
            seat,
            round,
            size,
            secret=self._secret(),
            state=kept if isinstance(kept, bytes) else None,
            least=self._least(),
            counts=not self.terms.limited,
        )

    def _least(self) -> int:
        """The fewest whose sum is released: the node's own setting, or the app's.

        A deployment's `min_cohort` counts who is asked; its threshold says how many may be left.
        """
        if self.terms.deployment is not None and f"{_PREFIX}-min-cohort" not in self.config:
            return 1
        return self.terms.min_cohort

    def _secret(self) -> Any:
        """What the transport asks of its owner: the clients' common key, or an identity."""
        transport = self.terms.protection.transport
        if transport.brings == "nothing":
            return None
        if transport.brings == "identity":
            return self._identity()
        path = self._path("key")
        if path is None:
            raise NotConfigured(
                f"{transport.name} needs the federation's private key; name its file as "
                f"trilemma-key in --node-config{_SIMULATED.format('TRILEMMA_KEY')}."
            )
        return _load_key(transport, path)

    def _identity(self) -> NodeIdentity | None:
        key, peers = self._path("identity"), self._path("peers")
        if key is None and peers is None:
            return None
        if key is None or peers is None:
            missing = "trilemma-identity" if key is None else "trilemma-peers"
            raise NotConfigured(
                f"pinned identities need both trilemma-identity and trilemma-peers in "
                f"--node-config, and {missing} is not there."
            )
        return NodeIdentity.load(key, peers)

    @cached_property
    def _record(self) -> RoundRecord | None:
        """The round record beside the identity's key, where the transport uses that."""
        path = self._path("identity")
        if path is None or self.terms.protection.transport.brings != "identity":
            return None
        return RoundRecord(path.with_name(f"{path.name}.rounds"))

    def _book(self) -> tuple[Ledger, str] | None:
        """The ledger and the name that this node's data have in it."""
        path, data = self._path("ledger"), self.config.get(f"{_PREFIX}-data")
        counts = self.policy is not None and self.policy.rounds is not None
        if path is None and not self.terms.limited and not counts:
            return None
        if data is None and (shared := os.environ.get("TRILEMMA_DATA")) is not None:
            # The nodes of a simulation share one environment, and each has a part of the data.
            part = self.config.get("partition-id")
            data = shared if part is None else f"{shared} {part}"
        if path is None or data is None:
            names = "TRILEMMA_LEDGER and TRILEMMA_DATA"
            raise NotConfigured(
                "what a node's data take part in is counted in a ledger; name its file as "
                "trilemma-ledger, and the data as trilemma-data, in "
                f"--node-config{_SIMULATED.format(names)}."
            )
        return Ledger(path), str(data)

    def _refusal(self, events: Sequence[Event]) -> str | None:
        """Why data with these events must not go on, by the node's policy or by its terms."""
        reason = None if self.policy is None else self.policy.refusal(events)
        return reason or self.terms.refusal(events)

    def _path(self, name: str) -> Path | None:
        value = self.config.get(f"{_PREFIX}-{name}", os.environ.get(f"TRILEMMA_{name.upper()}"))
        return None if value is None else Path(str(value))

    def weight(self, reported: int | None) -> int:
        """The number of records that its app reported last in this run; 1 before that."""
        if reported is not None:
            self._memory["weight"] = reported
        return self._number("weight") or 1

    # A model that the clients alone can read

    @property
    def version(self) -> int:
        """How many encrypted sums this node has applied."""
        return self._number("version")

    def change(self, base: torch.Tensor) -> torch.Tensor:
        """What was learnt [m] since the server's model `base` [m], which must stay what it was."""
        digest = hashlib.sha256(base.numpy().tobytes()).digest()
        if self._memory.get("base", digest) != digest:
            raise ProtocolViolation(
                "the server changed the model that it cannot read; blind Paillier works with "
                "FedAvg only."
            )
        self._memory["base"] = digest
        learnt = self.store.change
        return torch.zeros(base.numel(), dtype=torch.float64) if learnt is None else learnt

    def advance(self, version: int, mean: torch.Tensor) -> None:
        """Adds a mean update [m] to what was learnt."""
        learnt, total = self.store.change, mean.to(torch.float64)
        self.store.keep_change(total if learnt is None else learnt + total)
        self._memory["version"] = version

    # Memory

    @property
    def _memory(self) -> MutableMapping[str, Any]:
        return self.store.memory

    def _number(self, name: str) -> int:
        return cast(int, self._memory.get(name, 0))

    def _key(self, stage: Stage, lane: str) -> str:
        return f"{stage.kind} {stage.number} {stage.session} {lane}"

    def _keys(self, stage: Stage) -> list[str]:
        return [key for key in self._memory if key.startswith(f"{stage.kind} ")]


@lru_cache(maxsize=1)
def _load_key(transport: Transport, path: Path) -> Any:
    """The key with its tables, which take longer to make than a round."""
    return transport.load_secret(path)
