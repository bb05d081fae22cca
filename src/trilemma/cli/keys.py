"""`trilemma keys`: make the key that the clients of a Paillier federation share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma.cli.common_options import JsonOption, print_files

__all__ = ["app"]

app = typer.Typer(
    help="Make the key file that the clients of a Paillier federation share.",
    no_args_is_help=True,
)


@app.callback()
def _keep_subcommands() -> None:
    """Make typer show `new` as a subcommand even while it is the only one."""


@app.command()
def new(
    path: Annotated[Path, typer.Argument(help="Where to write the private key.")],
    bits: Annotated[int, typer.Option(help="Length of the key; 2048 is the floor.")] = 3072,
    public: Annotated[
        Path | None, typer.Option(help="Where to write the public key, for the server.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new key, readable by you alone, and say where it is.

    Hand the file to the other clients' owners out of band, never through the server: whoever
    holds it reads every update.

    Example: trilemma keys new federation.key --public federation.pub
    """
    from trilemma.crypto.keyfiles import save_private, save_public  # imports gmpy2
    from trilemma.crypto.paillier import PrivateKey
    from trilemma.entropy import System
    from trilemma.errors import InvalidInput, printable

    if path == public:
        raise InvalidInput(f"{path} cannot hold both keys; choose another name for --public.")
    key = PrivateKey.generate(System(), bits=bits)
    save_private(key, path)
    try:
        if public is not None:
            save_public(key.public, public)
    except InvalidInput:
        path.unlink()  # so that the corrected command finds its name free
        raise
    if as_json:
        print_files([path] if public is None else [path, public], "", as_json=True)
        return
    print(f"Private key of {bits} bits in {printable(path)}, for the clients alone.")
    if public is not None:
        print(f"Public key in {printable(public)}, for the server.")
