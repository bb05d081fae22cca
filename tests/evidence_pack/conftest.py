from tests.evidence_pack.packs import run, signer

__all__ = ["run", "signer"]
