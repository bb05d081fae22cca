"""What a node brings to the protocol: its own settings and files, and what it must remember."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context

from trilemma.crypto.keyfiles import load_private
from trilemma.crypto.paillier import PrivateKey
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.federation.flower.identities import NodeIdentity
from trilemma.federation.flower.messages import Stage, model_tensors
from trilemma.federation.flower.terms import Terms
from trilemma.protections.sessions import ProtectedClient
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.secret_sharing.transport import SecretSharing

__all__ = ["Node"]

_STATE: Final = "trilemma"
_CHANGE: Final = "trilemma-change"


@dataclass(frozen=True)
class Node:
    """One node's side of a run, backed by its `context`.

    All that decides whom it trusts comes from the node's own configuration (`--node-config`), or
    from the environment variable in brackets, never from a message: `trilemma-key` [TRILEMMA_KEY],
    the file with the Paillier key; `trilemma-identity` [TRILEMMA_IDENTITY] and `trilemma-peers`
    [TRILEMMA_PEERS], its Ed25519 key and the pinned public keys of all nodes;
    `trilemma-min-cohort` and `trilemma-threshold`, which override the app's terms.
    """

    terms: Terms
    context: Context

    @classmethod
    def of(cls, terms: Terms, context: Context) -> Node:
        """The node that this context belongs to."""
        config = context.node_config
        for setting, name in (("min_cohort", "min-cohort"), ("threshold", "threshold")):
            if (value := config.get(f"{_STATE}-{name}")) is not None:
                terms = replace(terms, **cast("dict[str, Any]", {setting: int(value)}))
        return cls(terms, context)

    def check(self, stage: Stage) -> None:
        """Raises unless the stage is for this node, in this run, under its own terms."""
        if stage.run != self.context.run_id:
            raise ProtocolViolation(
                f"the message belongs to run {stage.run}, and this is run {self.context.run_id}; "
                "it is foreign."
            )
        if stage.version:
            return
        stage.seat(self.context.node_id)
        if stage.terms != self.terms.describe():
            raise ProtocolViolation(
                f"the server asks for [{stage.terms}], but this node is set to "
                f"[{self.terms.describe()}]; give both the same terms."
            )
        if len(set(stage.cohort)) != len(stage.cohort):
            raise ProtocolViolation("the cohort names a node twice; it is forged.")
        least = max(self.terms.min_cohort, self.terms.threshold_of(len(stage.cohort)))
        if len(stage.cohort) < least:
            raise ProtocolViolation(
                f"this node is summed with {least} clients at least, and the server names "
                f"{len(stage.cohort)}."
            )

    # Sessions

    def sessions(self, stage: Stage) -> dict[str, ProtectedClient]:
        """The session of each lane that the stage has a message for: new, or as it was left."""
        if not any(self._key(stage, lane) in self._memory for lane in stage.blobs):
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

    def store(self, stage: Stage, sessions: dict[str, ProtectedClient], *, answered: bool) -> None:
        """Writes the sessions down, and that the round was answered; forgets those before it."""
        memory = self._memory
        for lane, session in sessions.items():
            memory[self._key(stage, lane)] = session.export()
        if not answered:
            return
        memory[f"last {stage.kind}"] = stage.number
        for key in self._keys(stage):
            if int(key.split()[1]) <= stage.number and key.split()[2] != stage.session:
                del memory[key]
        if stage.kind == "train":
            memory["rounds"] = self._number("rounds") + 1
            threshold = self.terms.threshold_of(len(stage.cohort))
            memory["threshold"] = min(self._number("threshold") or threshold, threshold)

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
        threshold = self.terms.threshold_of(len(stage.cohort))
        fewest = min(self._number("threshold") or threshold, threshold)
        if stage.kind == "train" and not self.terms.allows(self._number("rounds") + 1, fewest):
            raise ProtocolViolation(
                f"another round would exceed this node's budget of ε = {self.terms.budget}."
            )
        for key in self._keys(stage):
            if int(key.split()[1]) >= stage.number:
                del self._memory[key]  # the server has given that session up

    def _session(self, stage: Stage, lane: str, seat: int | None = None) -> ProtectedClient:
        protection, size = self.terms.lanes(stage.kind, stage.size)[lane]
        round = stage.round(lane, self.terms.threshold_of(len(stage.cohort)))
        if seat is None:
            seat = stage.seat(self.context.node_id)
        state = self._memory.get(self._key(stage, lane))
        if isinstance(state, bytes):
            return protection.restore(state, seat, round, size, secret=self._secret())
        return protection.client(seat, round, size, secret=self._secret())

    def _secret(self) -> PrivateKey | NodeIdentity | None:
        """What the transport asks of its owner: the clients' common key, or an identity."""
        transport = self.terms.protection.transport
        if isinstance(transport, SecretSharing):
            return _identity(self.context)
        if not isinstance(transport, Paillier):
            return None
        path = _path(self.context, "key")
        if path is None:
            raise InvalidInput(
                "Paillier needs the federation's private key; name its file as trilemma-key in "
                "--node-config."
            )
        return _load_key(path, transport.insecure)

    # A model that the clients alone can read

    @property
    def version(self) -> int:
        """How many encrypted sums this node has applied."""
        return self._number("version")

    def change(self, base: ArrayRecord) -> torch.Tensor:
        """What was learnt since the server's model `base`, which must stay what it was."""
        _, flat = model_tensors(base)
        digest = hashlib.sha256(flat.numpy().tobytes()).digest()
        if self._memory.get("base", digest) != digest:
            raise ProtocolViolation(
                "the server changed the model that it cannot read; blind Paillier works with "
                "FedAvg only."
            )
        self._memory["base"] = digest
        learnt = self.context.state.array_records.get(_CHANGE)
        if learnt is None:
            return torch.zeros(flat.numel(), dtype=torch.float64)
        return torch.from_numpy(learnt["change"].numpy())

    def advance(self, version: int, mean: torch.Tensor) -> None:
        """Adds a mean update [m] to what was learnt."""
        learnt = self.context.state.array_records.get(_CHANGE)
        total = mean.numpy().astype(np.float64)
        if learnt is not None:
            total = total + learnt["change"].numpy()
        self.context.state[_CHANGE] = ArrayRecord({"change": Array(total)})
        self._memory["version"] = version

    # Memory

    @property
    def _memory(self) -> ConfigRecord:
        if _STATE not in self.context.state:
            self.context.state[_STATE] = ConfigRecord()
        return self.context.state.config_records[_STATE]

    def _number(self, name: str) -> int:
        return cast(int, self._memory.get(name, 0))

    def _key(self, stage: Stage, lane: str) -> str:
        return f"{stage.kind} {stage.number} {stage.session} {lane}"

    def _keys(self, stage: Stage) -> list[str]:
        return [key for key in self._memory if key.startswith(f"{stage.kind} ")]


def _path(context: Context, name: str) -> Path | None:
    value = context.node_config.get(f"{_STATE}-{name}")
    if value is None:
        value = os.environ.get(f"TRILEMMA_{name.upper()}")
    return None if value is None else Path(str(value))


def _identity(context: Context) -> NodeIdentity | None:
    key, peers = _path(context, "identity"), _path(context, "peers")
    if key is None and peers is None:
        return None
    if key is None or peers is None:
        raise InvalidInput(
            "pinned identities need both trilemma-identity and trilemma-peers in --node-config."
        )
    return NodeIdentity.load(key, peers)


@lru_cache(maxsize=1)
def _load_key(path: Path, insecure: bool) -> PrivateKey:
    """The key with its tables, which take longer to make than a round."""
    return load_private(path, insecure=insecure)
