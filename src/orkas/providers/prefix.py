"""Which block broke the prefix that a vendor had cached, and what that cost.

Two consecutive requests of a session share their beginning, so what the last one sent should come from the cache. When
a reply tells that it did not, the two are compared: one line in the log names the first block that differs. Nothing is
compared, and nothing is said, as long as the cache holds; a compaction and a change of models are no fault.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from orkas.infra.amounts import usd
from orkas.infra.messages import Message, Usage, UserMessage
from orkas.providers.base import CompletionParams, Price, ToolDef

__all__ = ["PrefixWatch"]

_log = logging.getLogger("orkas.cache")

_SLACK = 1_024
"""Tokens that may be missing without a word: caches hold whole blocks of up to so many, and miss what is shorter."""
_LEAST = 4_096
"""Tokens from which on every vendor that has a cache uses it. Source: the vendors' pages on prompt caching."""
_LIFE_S = 300.0
"""Seconds that a cache lives at least; older ones may be gone by right."""
_SESSIONS = 8
"""Conversations that are watched at the same time."""


class _Sent(msgspec.Struct, eq=False):
    """What a request consisted of. The messages are the history's own objects, which never change."""

    params: CompletionParams
    messages: list[Message]
    at: float
    prompt: int = 0
    """Tokens, as the vendor counted them."""
    cached: bool = False
    """The vendor has shown that it keeps a cache."""


class PrefixWatch:
    """Watches the requests of one provider. ``clock``: seconds that only go forward."""

    def __init__(self, vendor: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._vendor = vendor
        self._clock = clock
        self._last: dict[tuple[str, str], _Sent] = {}

    def heard(self, params: CompletionParams, messages: list[Message], usage: Usage | None, price: Price | None) -> str:
        """The reply to a request has come. ``messages``: those of the request, as it was sent.

        Returns what was lost and why, as one sentence that is also logged; empty: nothing to speak of.
        """
        total = _prompt(usage)
        if params.session_id is None or usage is None or not total:
            return ""
        key = params.session_id, params.model
        last = self._last.pop(key, None)
        used = bool(usage.cache_read or usage.cache_write) or (last is not None and last.cached)
        sent = _Sent(params, messages, self._clock(), total, used)
        self._last[key] = sent
        if len(self._last) > _SESSIONS:
            del self._last[next(iter(self._last))]
        lost = min(last.prompt, total) - (usage.cache_read or 0) if last is not None else 0
        if last is None or lost <= max(_SLACK, last.prompt // 10):
            return ""
        return self._told(last, sent, lost, price)

    def _told(self, last: _Sent, sent: _Sent, lost: int, price: Price | None) -> str:
        if _compacted(last, sent):
            return ""
        why = _difference(last, sent)
        known = last.cached or (last.prompt >= _LEAST and price is not None and price.base.cache_read is not None)
        if not (last.cached if not why else known):
            return ""
        why = why or _gone(sent.at - last.at)
        text = (
            f"the prompt cache of {self._vendor}/{sent.params.model} did not hold: {lost:,} of {last.prompt:,} tokens "
            f"were sent anew{_worth(lost, sent.prompt, price)}, because {why}"
        )
        _log.info(text)
        return text


def _prompt(usage: Usage | None) -> int:
    if usage is None or usage.input is None:
        return 0
    return usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)


def _worth(lost: int, prompt: int, price: Price | None) -> str:
    """What reading these tokens from the cache would have saved."""
    rates = price.rates(prompt) if price is not None else None
    if rates is None or rates.cache_read is None:
        return ""
    return f" ({usd(lost * max(0.0, max(rates.input, rates.cache_write or 0.0) - rates.cache_read) / 1e6)})"


def _compacted(last: _Sent, sent: _Sent) -> bool:
    """A summary has come into the history: the prefix had to change."""
    before = set(map(id, last.messages))
    return any(type(m) is UserMessage and m.origin == "summary" and id(m) not in before for m in sent.messages)


def _difference(last: _Sent, sent: _Sent) -> str:
    """The first block that is another one, in the order in which vendors cache them; empty: none is."""
    before, now = last.params, sent.params
    if tool := _other_tool(before.tools, now.tools):
        return tool
    if before.system != now.system:
        at = next((i for i, (a, b) in enumerate(zip(before.system, now.system, strict=False)) if a != b), None)
        at = min(len(before.system), len(now.system)) if at is None else at
        return f"the system prompt is another one from character {at:,} on"
    if before.thinking != now.thinking:
        return f"thinking went from {before.thinking or 'unset'} to {now.thinking or 'unset'}"
    if before.output != now.output:
        return "the form that the answer must have is another one"
    if before.tool_choice != now.tool_choice:
        return f"tool_choice went from {before.tool_choice} to {now.tool_choice}"
    for n, message in enumerate(last.messages):
        if n >= len(sent.messages):
            return f"message {n} is gone"
        if sent.messages[n] is not message and sent.messages[n] != message:
            return f"message {n} is another one"
    return ""


def _other_tool(before: Sequence[ToolDef], now: Sequence[ToolDef]) -> str:
    if list(before) == list(now):
        return ""
    if sorted(t.name for t in before) == sorted(t.name for t in now):
        if [t.name for t in before] != [t.name for t in now]:
            return "the tools stand in another order"
        changed = next(b.name for b, n in zip(before, now, strict=True) if b != n)
        return f"the tool {changed!r} is described differently"
    names = {t.name for t in before} ^ {t.name for t in now}
    return f"the list of tools is another one ({', '.join(sorted(names))})"


def _gone(seconds: float) -> str:
    if seconds > _LIFE_S:
        return f"the last request was {seconds / 60:.0f} minutes ago and the cache has expired"
    return "the vendor no longer had it; nothing was changed here"
