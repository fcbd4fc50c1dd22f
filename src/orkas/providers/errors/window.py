"""How many tokens a model takes at most, where a refusal of a request that is too long says so."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["FIELDS", "told_window"]

FIELDS = (
    "n_ctx", "context_window", "context_length", "max_context_length", "max_model_len", "max_input_tokens",
    "max_prompt_tokens",
)  # fmt: skip
"""Names under which servers give the figure beside their words."""

_N = r"(\d{3,9})(k?)\b(?! ?(?:bytes|[km]i?b\b|char|image|item|message|tools?\b))"
_SAYINGS = [
    re.compile(pattern)
    for pattern in (
        rf"\d(?: tokens?)? > {_N}",  # prompt is too long: 210000 tokens > 200000 maximum; 178959 + 64000 > 200000
        rf"(?:context|model|prompt)[ _](?:length|window|size|limit)\W{{1,3}}(?:n_ctx\W{{1,4}})?{_N}",
        rf"(?:context|model|prompt)[ _](?:length|window|size|limit)(?: limit| size)?(?: of (?:this|the) model)? "
        rf"(?:is|of)(?: only)? {_N}",
        rf"{_N} (?:tokens? )?max(?:imum)? context",
        rf"n_ctx\W{{1,4}}{_N}",
        rf"max(?:imum)?[ _](?:input|prompt|total)[ _]tokens?(?: is| of)?\W{{1,3}}{_N}",
        rf"max(?:imum)? (?:allowed )?(?:number of )?(?:input |prompt )?tokens(?: allowed)?(?: is| of)?\W{{1,3}}{_N}",
        rf"(?:maximum|longest|largest) (?:allowed |prompt |input |model |sequence )*length(?: is| of)?\W{{1,3}}{_N}",
        rf"tokens? limit(?: is| of)?\W{{1,3}}{_N}",
        rf"limit (?:of|is|for (?:this|the) model is) {_N}",
        rf"must be (?:<=?|≤|at most|less than(?: or equal to)?|no (?:more|longer) than) {_N}",
        rf"should be \[\d+, ?{_N}",
    )
]
_RATE = re.compile(r"per[ _-]?(?:min|day|sec|hour)|\btpm\b|\btpd\b|\brpm\b|rate[ _-]?limit")
_LEAST, _MOST = 128, 100_000_000


def told_window(text: str, fields: Iterable[int] = ()) -> int | None:
    """Tokens, from the words of a refusal in lower case or from its ``FIELDS``; None where it does not say.

    A rate limit also names a number of tokens, and that is no window: then None.
    """
    if _RATE.search(text):
        return None
    for number in fields:
        if _LEAST <= number <= _MOST:
            return number
    text = re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text)
    for saying in _SAYINGS:
        if found := saying.search(text):
            number = int(found[1]) * (1000 if found[2] else 1)
            if _LEAST <= number <= _MOST:
                return number
    return None
