"""`trilemma verify`: whether a pack of evidence is whole, and who signed it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma import api
from trilemma.cli.common_options import JsonOption, print_json

__all__ = ["verify"]


def verify(
    pack: Annotated[Path, typer.Argument(help="A folder or zip that trilemma evidence wrote.")],
    signer: Annotated[
        Path | None, typer.Option(help="The public key that must have signed it, in PEM.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every file of a pack against its manifest, and the manifest's signature.

    Exit codes: 0, signed and unchanged; 1, it does not verify; 2, a mistake.

    Example: trilemma verify evidence.zip --signer signer.pub
    """
    from trilemma.errors import printable

    found = api.verify(pack, signer=signer)
    if as_json:
        print_json(found.as_json())
    elif found.signer is None:
        print(f"{printable(pack)}: {found.state}: {printable(found.fault)}.")
    else:
        name = f", named {printable(found.signer.name)}" if found.signer.name else ""
        print(f"{printable(pack)}: verified; signed by {found.signer.ed25519}{name}.")
        if not found.compared:
            print("The pack brings that key itself: --signer compares it with one that you know.")
    if found.signer is None:
        raise typer.Exit(1)
