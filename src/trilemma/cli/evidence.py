"""`trilemma evidence`: a pack for those who judge a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilemma import api
from trilemma.cli.common_options import JsonOption, print_json
from trilemma.cli.configuration import TrustOption

__all__ = ["evidence"]


def evidence(
    run: Annotated[Path, typer.Argument(help="A verdict.json or its run folder.", metavar="RUN")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="A new folder, or a file that ends in .zip  [default: RUN/evidence]",
            metavar="DIR|FILE.zip",
        ),
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(help="The key that signs: trilemma keys new --sign.")
    ] = None,
    name: Annotated[str, typer.Option(help="Who signs, as others know you.")] = "",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write what an evaluator needs: verdict, page, PDF, statement and manifest, signed.

    It holds no record and no reconstruction. What is in it: docs/evidence.md.

    Example: trilemma evidence runs/first --out evidence.zip --sign signer.pem
    """
    from trilemma.errors import printable
    from trilemma.naming import only_named

    with only_named(trust=trust):
        made = api.evidence(run, out=out, sign=sign, name=name)
    if as_json:
        print_json(made.as_json())
        return
    print(f"evidence: {printable(made.path)}: {', '.join(made.files)}")
    if made.no_pdf:
        print(printable(made.no_pdf))
    if made.signer is None:
        print("Not signed; --sign signs it.")
    else:
        print(f"signed by {printable(made.signer.name or 'the key')} {made.signer.ed25519}")
