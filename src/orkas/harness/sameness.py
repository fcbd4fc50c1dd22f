"""Whether two calls, or two results, are the same in all that matters; and what is no loop although it repeats.

Pure functions over plain data. Words are matched in the languages that tools and servers speak most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from orkas.infra.messages import scrub
from orkas.infra.patterns import lazy

__all__ = [
    "canonical", "is_empty", "is_poll", "is_unfinished", "same_page", "steady", "without_echo", "without_volatile",
]  # fmt: skip

_encode = msgspec.json.Encoder(order="sorted").encode

_LOOKED_AT = 16_384
"""Characters of a result that are read for its meaning; the rest counts as it is."""

_VOLATILE = frozenset([
    "requestid", "xrequestid", "clientrequestid", "reqid", "correlationid", "xcorrelationid", "idempotencykey",
    "idempotencyid", "idempotencytoken", "traceid", "spanid", "parentspanid", "traceparent", "tracestate", "nonce",
    "cachebuster", "timestamp", "ts", "requesttime", "requestedat", "sentat", "createdat", "updatedat", "invocationid",
    "callid", "toolcallid", "attempt", "attemptid", "attemptnumber", "retry", "retrycount",
])  # fmt: skip
"""Arguments that are new each time and name nothing, by their names in lower case without ``_`` and ``-``."""
_CLOCKS = frozenset(["timestamp", "ts"])
_EPOCH = 1_000_000_000
"""A smaller number is no time of day: a second of a film is a target."""

_PAGING = lazy(
    r"page|offset|cursor|start|end|from|to|begin|line|lines|row|rows|limit|skip|take|after|before|continuation|next"
    r"|index|range|position|pos|seek|chunk|part|batch|first|last|count|size|view"
)
_WORD = lazy(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DIGITS = lazy(r"\d+")


def canonical(value: Any) -> bytes:
    """Plain data as bytes that are equal exactly when the data are, whatever the order of their keys."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(scrub(value))
    except (TypeError, ValueError, OverflowError, RecursionError):  # no JSON: a number too large, or too deep
        return repr(value).encode(errors="backslashreplace")


def without_volatile(value: Any) -> Any:
    """The arguments without what is new each time: ids of the request, nonces, times. The very object when there is
    nothing to leave out."""
    if isinstance(value, dict):
        kept = {}
        same = True
        for k, v in value.items():
            if _is_volatile(k, v):
                same = False
            else:
                kept[k] = plain = without_volatile(v)
                same = same and plain is v
        return value if same else kept
    if isinstance(value, list):
        items = [without_volatile(v) for v in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, str):
        stripped = value.strip()
        return value if len(stripped) == len(value) else stripped
    return value


def _is_volatile(key: object, value: Any) -> bool:
    if not isinstance(key, str):
        return False
    name = key.replace("_", "").replace("-", "").lower()
    if name not in _VOLATILE:
        return False
    if name in _CLOCKS and isinstance(value, int | float):
        return value >= _EPOCH
    return not isinstance(value, dict | list)


_UNSTEADY = lazy(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"  # a random id
    r"|\b0x[0-9a-fA-F]{6,}\b"  # an address
    r"|\bshell-[0-9a-f]{12}\b"  # where a long output lies
    r"|\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b"  # how long it took
)


def steady(text: str) -> str:
    """A result without times of day, durations, addresses and random ids, which differ although nothing has."""
    head = text[:_LOOKED_AT]
    if head.lstrip()[:1] in ("{", "["):
        try:
            head = canonical(without_volatile(msgspec.json.decode(text))).decode(errors="replace")
            text = ""
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass
    return _UNSTEADY.sub("…", head) + text[_LOOKED_AT:]


def without_echo(text: str, arguments: Mapping[str, Any] | None) -> str:
    """A result without the words of the call that it gives back, and without numbers."""
    head = text[:_LOOKED_AT]
    given = [v for v in (arguments or {}).values() if isinstance(v, str) and 1 < len(v) < 1000]
    for value in sorted(given, key=len, reverse=True):
        head = head.replace(value, "…")
    return _DIGITS.sub("#", steady(head))


def same_page(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Two calls of a tool that only look at different parts of one thing: pages, offsets, cursors, ranges of lines."""
    return bool(one or other) and _shape(one) == _shape(other)


def _shape(arguments: Mapping[str, Any]) -> bytes:
    plain = {k: v for k, v in arguments.items() if not _pages(k)}
    return _DIGITS.sub("#", canonical(plain).decode(errors="replace")).encode()


def _pages(key: str) -> bool:
    return any(_PAGING.fullmatch(word.lower()) for word in _WORD.findall(key))


# --- waiting for something ----------------------------------------------------------------------------------------

_WAITING = frozenset(["wait", "sleep", "poll", "status", "watch", "monitor", "await", "progress", "ready", "heartbeat"])
_ACTING = frozenset(["git", "hg", "svn", "set", "update", "write"])
"""A tool of such a name does something, or looks at what changes by our own hand alone."""
_COMMANDS = ("command", "cmd", "script", "code", "args")
_WAITING_COMMAND = lazy(
    r"(?<![\w-])(?:sleep|wait|watch|poll|Start-Sleep|squeue|qstat|sacct)(?![\w-])"
    r"|(?<![\w-])status(?!\w)"
    r"|\b(?:gh run|gh pr checks|kubectl (?:get|describe)|docker (?:ps|inspect)|systemctl is-active|pg_isready)\b"
)

_OWN_STATUS = lazy(r"\b(?:git|hg|svn)\b[^|;&\n]*\bstatus\b")


def is_poll(name: str, arguments: Mapping[str, Any] | None) -> bool:
    """The call waits, or asks how far something is: to be repeated is its purpose."""
    words = {word.lower() for word in _WORD.findall(name)}
    if words & _WAITING and not words & _ACTING:
        return True
    for key, value in (arguments or {}).items():
        if isinstance(value, list) and key in _COMMANDS:
            value = " ".join(v for v in value if isinstance(v, str))  # noqa: PLW2901
        if not isinstance(value, str):
            continue
        if key in _COMMANDS and _WAITING_COMMAND.search(_OWN_STATUS.sub("", value[:_LOOKED_AT])):
            return True
        if value.lower() in _WAITING and key not in _COMMANDS:  # action="poll"
            return True
    return False


_UNFINISHED = lazy(
    r"(?<![^\W_])(?<!-)(?:pending|queued|enqueued|in[ _-]?progress|in[ _-]?flight"
    r"|yet|not (?:ready|done|finished|complete|available)|still (?:\w+ing|in|not)|unfinished|incomplete|processing"
    r"|provisioning|try again (?:later|in|soon)|retry[ _-]after|please wait|not[ _]?started"
    r"|initiali[sz]ing|rolling out|awaiting|activating"
    r"|ausstehend|in bearbeitung|in arbeit|noch nicht|wartet|läuft noch|en cours|en attente|pas encore|en curso"
    r"|en progreso|pendiente|en espera|procesando|en cola|in corso|in attesa|in coda|em andamento|pendente|em execução"
    r"|aguardando|na fila|bezig|in behandeling|wachtend|w toku|oczekuj\w*|devam ediyor|bekliyor|beklemede|pågår|väntar"
    r"|выполняется|в процессе|ожидани\w+|ожидает|в очереди|обрабатывается|виконується|очікує|đang|chờ)(?![^\W_])"
    r"|进行中|進行中|处理中|處理中|等待|排队|排隊|运行中|運行中|执行中|執行中|正在|未完成|尚未|加载中"
    r"|待处理|待機|処理中|実行中|保留中|準備中|진행|대기|처리 ?중|실행 ?중|قيد|جاري|الانتظار|प्रगति|लंबित|प्रतीक्षा",
    re.IGNORECASE,
)
_GOING_ON = lazy(
    r"(?<![\w-])(?:running(?! (?:\d+|one|all) \w+)|waiting|starting|loading|building|deploying|scheduled|creating"
    r"|working|elapsed|remaining|eta|läuft)(?!\w)|(?<![\d.])\d{1,2}(?:\.\d+)? ?%|\b\d+ of \d+\b|(?:…|\.\.\.)\s*\Z",
    re.IGNORECASE,
)
_FINISHED = lazy(
    r"(?<![\w-])(?:pass(?:ed)?|fail(?:ed|ure)?|errors?|completed?|finished|succeeded|success|done|exit(?:ed)?)(?!\w)",
    re.IGNORECASE,
)
_STATE = lazy(r"(?:status|state|phase|stage|conclusion)[\"']?\s*[:=：]\s*[\"']?([\w -]{1,40})", re.IGNORECASE)
_NO = lazy(
    r"\b(?:is_?)?(?:done|ready|completed?|finished|available|success|healthy)[\"']?\s*[:=]\s*(?:false|no|0|null|none)\b",
    re.IGNORECASE,
)
_SHORT = 600
"""Characters of a result that is nothing but news of how far something is."""


def is_unfinished(text: str, *, is_error: bool) -> bool:
    """The result says of something that it is not ready yet."""
    head = text[:_LOOKED_AT]
    for found in _STATE.finditer(head):
        if _UNFINISHED.search(found[1]) or _GOING_ON.search(found[1]):
            return True
    if len(text) > _SHORT:
        return False
    if _UNFINISHED.search(head) or _NO.search(head):
        return True
    return not is_error and bool(_GOING_ON.search(head)) and not _FINISHED.search(head)


_EMPTY = lazy(
    r"[\s\[\]{}()\"'.]*|null|none"
    r"|\(?no (?:\w+ ){0,3}?(?:match(?:es)?|results?|files?|hits?|entries|rows|records|data|items)"
    r"(?: (?:was|were))?(?: found)?.{0,80}|(?:nothing|0 \w+)(?: \w+)? found.{0,80}|not found.{0,80}",
    re.IGNORECASE | re.DOTALL,
)


def is_empty(text: str) -> bool:
    """The result says that nothing was found. Having nothing to say is another thing: a command that did its work is
    often silent."""
    return len(text) < 200 and _EMPTY.fullmatch(text.strip()) is not None
