from tests.evidence.packs import run, signer

__all__ = ["run", "signer"]
