"""What the words of a verdict mean, a sentence or two each."""

from __future__ import annotations

from typing import Final

__all__ = ["GLOSSARY"]

GLOSSARY: Final[dict[str, str]] = {
    "game": "One attempt of an attacker. One record of a client is the target, the client trains "
    "with it, and the attack names one record of the candidate set.",
    "candidate set": "The target and N - 1 other records of the same client, in random order. The "
    "client trains with the target alone among them.",
    "guessing": "Naming a candidate without having learnt anything. It is right in 1 of N games.",
    "leakage": "How far the attacker's belief moves when it looks, from 0 (nothing learnt) to 1 "
    "(it knows the record): √(JS / ln 2) between how often it is right and guessing, where JS is "
    "the Jensen-Shannon divergence.",
    "limit": "The largest leakage that you tolerate, also called the budget. It decides how many "
    "right guesses are allowed among N candidates. It can be given as a rate, such as 1 in 6.",
    "update": "What a client sends in a round: a gradient of its loss, or the change of its "
    "weights. Records stay where they are, but an update tells of them.",
    "protection": "What changes or hides updates before the server reads them: noise, "
    "compression (only some numbers are sent), secret sharing (the server reads sums alone), "
    "Paillier (it reads ciphertexts), or several together.",
    "knowledge": "What the attacker knows besides the model, the protocol and the messages: "
    "nothing, public records, the candidates, all other records; at the top, anything. A "
    "protection that holds for one kind of knowledge holds for those before it.",
    "participation": "Which rounds used the record. It is known to the attacker, or secret: "
    "each round draws records by chance.",
    "tested": "Every attack of that knowledge played games that had no part in choosing the "
    "protection, and each passed a test of its own. The confidence is that of the whole "
    "procedure.",
    "estimate": "A rate from a few games of the strongest attack, with an interval for it alone. "
    "It shows a price; it is no test.",
    "confidence": "How sure a test is: at 95 %, at most one of twenty procedures like this one "
    "claims what is false.",
    "weighted cost": "The loss of accuracy (or of another metric) times its weight, plus the "
    "added length of a round times its own.",
}
