"""`trilemma prove`: the noise that a budget needs, and what it proves, without any data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from trilemma.cli.common_options import JsonOption, print_json

__all__ = ["prove"]


def prove(
    clients: Annotated[int, typer.Option(help="Clients that take part in a round.")],
    rounds: Annotated[int, typer.Option(help="Rounds of the training, repeated ones included.")],
    budget: Annotated[float, typer.Option(help="Largest tolerated leakage, 0 to 1.")] = 0.3,
    threshold: Annotated[
        int | None, typer.Option(help="Fewest clients with which a round ends [over two thirds].")
    ] = None,
    helpers: Annotated[int, typer.Option(help="Clients that may help the attacker.")] = 1,
    transport: Annotated[
        Literal["secret-sharing", "paillier", "plain"],
        typer.Option(help="plain: the server reads single messages."),
    ] = "secret-sharing",
    algorithm: Annotated[
        Literal["fedsgd", "fedavg"], typer.Option(help="fedavg: hides a whole client.")
    ] = "fedsgd",
    records: Annotated[
        int | None, typer.Option(help="Records of the smallest client, with --batch.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Poisson batch [all records in every round].")
    ] = None,
    participation: Annotated[
        Literal["known", "secret"],
        typer.Option(help="Does the attacker know which rounds use a record?"),
    ] = "known",
    person: Annotated[int, typer.Option(help="Records that one person may have.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Print the noise that keeps a budget over a training, and what it proves.

    Example: trilemma prove --clients 10 --rounds 150 --threshold 7 --helpers 1
    """
    from trilemma.accounting import guarantee

    found = guarantee.prove(
        clients=clients,
        rounds=rounds,
        budget=budget,
        threshold=threshold,
        helpers=helpers,
        transport=transport,
        algorithm=algorithm,
        records=records,
        batch=batch,
        participation=participation,
        person=person,
    )
    if as_json:
        document = {**asdict(found), "noise_per_client": found.noise_per_client}
        print_json(document)
    else:
        from trilemma.reporting.words.guarantee_text import show_guarantee

        show_guarantee(found)
