"""`trilemma keys`: make the key of a Paillier federation, or one that signs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma.cli.common_options import JsonOption, print_files

__all__ = ["app"]

app = typer.Typer(
    help="Make the key that the clients of a Paillier federation share, or one that signs.",
    no_args_is_help=True,
)


@app.callback()
def _keep_subcommands() -> None:
    """Make typer show `new` as a subcommand even while it is the only one."""


@app.command()
def new(
    path: Annotated[Path, typer.Argument(help="Where to write the private key.")],
    bits: Annotated[
        int | None,
        typer.Option(help="Length of a Paillier key; 2048 is the floor.  [default: 3072]"),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(help="Where to write the public key: for the server, or for who verifies."),
    ] = None,
    sign: Annotated[
        bool, typer.Option("--sign", help="An Ed25519 key that signs evidence and verdicts.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a new key, readable by you alone, and say where it is.

    Hand a Paillier key to the other clients' owners out of band, never through the server: whoever
    holds it reads every update. A key that signs stays with you; its public part lies beside it
    with the suffix .pub.

    Examples: trilemma keys new federation.key --public federation.pub; trilemma keys new
    signer.pem --sign
    """
    from trilemma.errors import InvalidInput, printable

    if sign:
        if bits is not None:
            raise InvalidInput(f"a key that signs has no --bits, got {bits}; leave it out.")
        public = path.with_suffix(".pub") if public is None else public
    if path == public:
        raise InvalidInput(f"{path} cannot hold both keys; choose another name for --public.")
    if sign and public is not None:
        from trilemma.crypto.signatures import new_signing_key  # imports cryptography

        new_signing_key(path, public)
        said = "Private key that signs", "you alone", "those who verify"
    else:
        from trilemma.crypto.keyfiles import save_private, save_public  # imports gmpy2
        from trilemma.crypto.paillier import PrivateKey
        from trilemma.entropy import System

        bits = 3072 if bits is None else bits
        key = PrivateKey.generate(System(), bits=bits)
        save_private(key, path)
        try:
            if public is not None:
                save_public(key.public, public)
        except InvalidInput:
            path.unlink()  # so that the corrected command finds its name free
            raise
        said = f"Private key of {bits} bits", "the clients alone", "the server"
    if as_json:
        print_files([path] if public is None else [path, public], "", as_json=True)
        return
    print(f"{said[0]} in {printable(path)}, for {said[1]}.")
    if public is not None:
        print(f"Public key in {printable(public)}, for {said[2]}.")
