"""What the words of a verdict mean, a sentence or two each."""

from __future__ import annotations

from typing import Final

__all__ = ["GLOSSARY"]

GLOSSARY: Final[dict[str, str]] = {
    "game": "One record of one client is tagged before anything is attacked. The client trains "
    "with it, and an attack that watches has one guess to tell it from the rest of the "
    "candidate set.",
    "candidate set": "The target record and N - 1 others of the same client, in random order; the "
    "others are not used while the game runs. They are the candidates.",
    "blind guess": "Who has learnt nothing guesses right in exactly 1 of N games. Only what is "
    "guessed right beyond that counts as leakage.",
    "leakage": "How far the attacker's belief moves when it looks, from 0 (nothing learnt) to 1 "
    "(it knows the record): √(JS / ln 2) between how often it guesses right and a blind guess, "
    "where JS is the Jensen-Shannon divergence.",
    "budget": "The largest leakage that you tolerate. It decides how many right guesses pass. "
    "Asked "
    "the other way round (at most 1 in 6), it is the leakage that this rate of right guesses "
    "comes "
    "to among N candidates.",
    "update": "What a client sends in a round: a gradient of its loss, or the change of its "
    "weights. Records stay where they are; an update tells of them all the same.",
    "protection": "What changes or hides updates before the server reads them: noise, "
    "compression (only some numbers are sent), secret sharing (the server reads sums only), "
    "Paillier (it reads ciphertexts), or several together.",
    "knowledge": "How much the attacker knows besides the model, the protocol and the messages: "
    "nothing, public records, the candidates, the rest; at the top stands anyone. Who is held "
    "off on one knowledge is held off on all kinds of knowledge below it, at the same strength.",
    "participation": "Which rounds held the record. Where it is known, the attacker is told; "
    "where it is secret, each round draws records by chance and nobody is told.",
    "fresh games": "Games that had no part in choosing the strength. A test counts these only, "
    "so that luck in the search cannot pass it.",
    "tested": "Every attack of that knowledge played fresh games at this very strength, and each "
    "passed a test of its own. The confidence is that of the whole procedure.",
    "estimate": "From a few games of the leading attack, with an interval that holds for "
    "this one number alone. It shows a price and proves nothing.",
    "basis": "What a claim rests on: measured (tests with fresh games), certified (a proof for "
    "every attacker), or cryptographic (a key that the adversary does not hold).",
    "confidence": "How sure the claim is: at 95 %, of twenty procedures like this one at most one "
    "claims what is not so.",
    "family": "A protection with one free strength, such as noise with its variance. A strength "
    "is searched for each family, and the families are ranked by what that costs.",
    "weighted cost": "The loss of the metric times its weight, and the added length of a round "
    "times its own.",
}
