"""What a vendor's refusal means: its class, and how long it asked us to wait.

Neither the status nor the text alone tells: 400 for a wrong key, 429 that no waiting cures, 200 with an error inside,
overflow texts wrapped in another JSON string. So one ordered table looks at both; the first row that matches decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orkas.infra.errors import ErrorClass, ProviderError
from orkas.infra.messages import well_formed
from orkas.providers.errors.waits import retry_after
from orkas.providers.errors.window import FIELDS, told_window

__all__ = ["classify", "mask", "page_text"]

_SHOWN = 600
"""Characters of the vendor's own message that are shown."""
_READ = 8000
"""Characters of it that are looked at, two thirds of them at its beginning: whatever a server sends, reading it takes a
moment. Secrets are taken out before the message is cut further, lest half of one stays."""
_PAGE = 40_000
"""Characters of a web page that are read for words."""


def classify(
    vendor: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    secrets: Iterable[str] = (),
    now: float | None = None,
) -> ProviderError:
    """The error that a refused request, or an error inside a 200 stream, stands for.

    ``headers`` in lower case. ``now``: when the answer came, in seconds since the epoch, for dates in it. ``secrets``
    never appear in the message.
    """
    said = _read(body)
    inner = said.status if status < 400 else status
    class_ = _class(said, inner, headers)
    wait = retry_after(headers, said.everything, now=now, details=said.delays)
    where = f"{vendor} answered HTTP {status}" if status >= 400 else f"{vendor} reported an error"
    if text := _clip(mask(said.message, secrets)):
        sentence = f"{where}: {text}"
    else:
        marks = _clip(mask(said.marks, secrets))
        sentence = f"{where} without saying why" + (f" ({marks})" if marks else "")
    window = told_window(said.everything, said.windows) if class_ == "context_overflow" else None
    vague = class_ == "context_overflow" and "token" not in said.everything and not _OVERFLOW.search(said.everything)
    hint = _HINTS.get("vague" if vague else class_, "")
    return ProviderError(
        sentence, class_=class_, status=status, wait_s=wait, window=window, vague=vague, hint=hint,
        botched=class_ == "invalid_request" and "tool_use_failed" in said.marks,
    )  # fmt: skip


_HINTS: dict[str, str] = {
    "auth": "check the API key and what it may use",
    "quota": "check the account's plan and balance, or use another model",
    "not_found": "check the model's name with 'orkas models'",
    "context_overflow": "compact the session or start a new one",
    "vague": "check the address and what stands before it, or, where the conversation is long, compact the session",
}


# ------------------------------------------------------------------ the table

_QUOTA = re.compile(
    r"insufficient[_ ]quota|insufficient[_ ](?:balance|credit|funds)|credit balance|out of credits|no credits|"
    r"not enough (?:credits?|balance|funds)|requires more credits|all available credits|purchase more credits|"
    r"spending limit|usage_limit_reached|usage limit has been reached|usage_not_included|extra usage is required|"
    r"billing_(?:hard_limit|not_active)|billing hard limit|payment required|balance is (?:too low|insufficient)|"
    r"recharge|arrear|overdue|per ?day(?:per|$|\W)|perday|tokens per day|requests per day|daily (?:limit|quota)|"
    r"monthly (?:limit|quota)|account (?:is )?(?:suspended|deactivated|not active)|exceeded_current_quota|"
    r"quota_exceeded|reached your specified api usage limits|have any credits|usage limit reached for \d|"
    r"(?:calls?|requests?|tokens?) ?(?:/|per) ?(?:month|day)\b"
)
_QUOTA_SOFT = re.compile(r"exceeded your current quota")
_FILTER = re.compile(
    r"content[_ ]filter|content[_ ]policy|content management policy|responsibleaipolicy|flagged as potentially|"
    r"input was flagged|"
    r"invalid_prompt|safety system|data_inspection_failed|moderation|bio_policy|cyber_policy|violat\w+ our usage polic"
)
_TOO_LARGE = re.compile(r"request_?\s?too_?\s?large|request exceeds the maximum size|entity too large")
_OVERFLOW = re.compile(
    r"context_length_exceeded|context[_ ]window|(?:prompt|input|context) (?:is |was )?too (?:long|large)|"
    r"prompt_too_long|context[_ ]length|n_ctx|reduce your prompt|prompt (?:length )?exceeds|max_input_tokens|"
    r"maximum (?:allowed )?(?:number of )?(?:input |prompt )tokens|larger than the (?:maximum )?context|"
    r"input tokens exceeded|input length and `?max_tokens`? exceed|maximum context length|max(?:imum)? context|"
    r"exceeds? the (?:available )?context|exceed_context_size|context size|input token count|"
    r"prompt token count|model_max_prompt_tokens|maximum prompt length|too_many_(?:prompt_)?tokens|too many tokens|"
    r"reduce the length|exceeded model token limit|range of input length|length of all messages is too long|"
    r"tokens to keep from the initial prompt|number of tokens to keep|trying to keep the first|"
    r"longer than the model's|exceeds? the (?:model's )?(?:maximum|limit)[^.]*tokens?|context overflow|"
    r"exceeds the limit of \d+|too large for model|input (?:is )?longer than|token limit (?:reached|exceeded)|"
    r"model_context_window_exceeded|string_above_max_context|max_new_tokens`? must be|"
    r"longer than the maximum model length|total tokens limit"
)
_OUTPUT = re.compile(
    r"max_?(?:new_?|completion_?|output_?)?tokens(?:_to_sample)?(?: value)?\W{0,3}(?:\(?\d+\)? )?"
    r"(?:(?:must|should|has to) be|(?:cannot|can't|may not|must not) (?:exceed|be)|is too (?:large|high|big)|"
    r"exceeds?\b|is (?:greater|larger|more|higher) than)|"
    r"maximum (?:allowed )?(?:value|number) (?:for|of) [`'\"]?(?:max_|output|completion)|"
    r"at most \d+ (?:completion|output) tokens"
)
"""The answer may not be as long as was asked for, whatever the conversation weighs."""
_OF_PROMPT = re.compile(r"input|prompt|messages|maximum context length|requested \d")
_MODEL = re.compile(
    r"model_not_found|deploymentnotfound|model identifier is invalid|no such model|unknown model|invalid model|"
    r"model_deprecated|not a valid model|no endpoints found|"
    r"model(?:[^.]|\.\S){0,120}(?:does not exist|not found|has been (?:deprecated|decommissioned|retired)|"
    r"is not available)|(?:model|deployment)(?:[^.]|\.\S){0,80}not (?:found|supported)"
)
_KEY = re.compile(
    r"incorrect api key|invalid (?:x-)?api[- _]?key|api[_ ]key[_ ](?:not valid|invalid)|invalid_api_key|"
    r"authentication_error|authentication fail|missing authentication|unauthori[sz]ed|unregistered callers|"
    r"security token|expired ?token|permission_denied|permission_error|access ?denied|tos_violation|"
    r"(?:organization|account|project|key) has been disabled|"
    r"invalid (?:bearer |access |auth\w* )?token|no auth credentials|unrecognizedclient|location is not supported"
)
_LIMITED = re.compile(
    r"rate[_ ]?limit|too many requests|throttl|resource_?\s?exhausted|requests per min|tokens per min|tpm|rpm|"
    r"please wait before trying"
)
_LIMITED_WORDS = re.compile(
    r"too many requests|please wait before trying|rate[ -]limit(?:ed| reached| exceeded|s? hit)|"
    r"exceeded (?:your|the) rate limit"
)
_BUSY = re.compile(
    r"overloaded|capacity|high demand|server_is_overloaded|service_unavailable|unavailable|"
    r"insufficient_system_resource|try again later|engine_overloaded"
)
_SERVER = re.compile(
    r"server_error|api_error|internal(?:_server)?[_ ]error|internalservererror|disconnected|upstream|bad_gateway|"
    r"timed? ?out|timeout|provider returned error|connection"
)
_OVERLONG = re.compile(r"string_above_max_length|string too long")


def _class(said: _Said, status: int, headers: Mapping[str, str]) -> ErrorClass:
    text = said.everything
    limited = status in (429, 529)
    if _OVERLONG.search(text) and not limited:
        return "invalid_request"
    if _FILTER.search(said.marks) or (status < 500 and not limited and _FILTER.search(text)):
        return "content_filter"
    if status == 402 or _is_quota(text):
        return "quota"
    if _TOO_LARGE.search(text):
        return "context_overflow"
    if limited or (status in (0, 200) and _LIMITED.search(said.marks)):
        return "overloaded" if status == 529 or _BUSY_NOW.search(text) else "rate_limit"
    if status in (0, 200) and (class_ := _unstable(said)):
        return class_
    if _LIMITED.search(said.marks + headers.get("x-amzn-errortype", "").lower()) or _LIMITED_WORDS.search(text):
        return "rate_limit"
    if _OUTPUT.search(text) and not _OF_PROMPT.search(text):
        return _by_status(said, status)
    if _OVERFLOW.search(text) or status == 413 or (status == 400 and not text.strip()):
        return "context_overflow"
    return _by_status(said, status)


_BUSY_NOW = re.compile(r"overloaded|capacity exceeded|high demand|engine_overloaded")


def _is_quota(text: str) -> bool:
    if _QUOTA.search(text):
        return True
    return bool(_QUOTA_SOFT.search(text)) and not re.search(r"perminute|per minute|retrydelay", text)


def _unstable(said: _Said) -> ErrorClass | None:
    """An error inside a 200 stream that names itself as the server's own."""
    if _BUSY.search(said.marks) or "overloaded" in said.everything:
        return "overloaded"
    if "invalid_request" in said.marks or "tool_use_failed" in said.marks:
        return None
    return "server" if _SERVER.search(said.marks) else None


def _by_status(said: _Said, status: int) -> ErrorClass:
    text = said.everything
    if status in (401, 403):
        return "auth"
    if status in (0, 200, 400, 404, 422) and _MODEL.search(text):
        return "not_found"
    if status < 500 and _KEY.search(text):
        return "auth"
    if status == 404 or "not_found_error" in said.marks:
        return "not_found"
    if status in (408, 504, 522, 524):
        return "timeout"
    if status in (498, 503, 529):
        return "overloaded"
    if status >= 500 or status in (409, 424, 425):
        return "server"
    if status >= 300 or "invalid" in said.marks or "tool_use_failed" in said.marks:
        return "invalid_request"
    return "server"


# ------------------------------------------------------------------ reading a body


@dataclass(slots=True)
class _Said:
    """What a body says, whatever its form."""

    message: str = ""
    marks: str = ""
    """Types, codes and reasons, lower case."""
    everything: str = ""
    """Message and marks, inner JSON undone, lower case. Never what a model generated."""
    status: int = 0
    """A status inside the body, 0 if none."""
    delays: list[str] = field(default_factory=list)
    """Waiting times that the body gives as fields, in the vendor's spelling."""
    windows: list[int] = field(default_factory=list)
    """Sizes of the context window that the body gives as fields."""


_MESSAGES = ("message", "detail", "error_description", "error", "raw", "msg", "title")
_MARKS = ("type", "code", "status", "reason", "quotaid", "error_type", "__type", "param")
_DELAYS = ("retrydelay", "resets_in_seconds", "retry_after_seconds", "retry_after")
_SKIPPED = ("failed_generation", "user_id", "request_id", "metadata_headers", "content_filter_result")


def _read(body: bytes | str) -> _Said:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else well_formed(body)
    value = _json(text)
    said = _Said()
    if isinstance(value, dict | list):
        messages: list[str] = []
        marks: list[str] = []
        _gather(value, messages, marks, said, 0)
        said.message = _bounded(_cause(messages))
        said.marks = _bounded(" ".join(marks).lower())
        said.everything = _bounded(" ".join(messages).lower()) + " " + said.marks
    else:
        said.message = _bounded(_plain(text))
        said.everything = said.message.lower()
    return said


def _bounded(text: str) -> str:
    """The text, or its beginning and its end."""
    return text if len(text) <= _READ else f"{text[: _READ * 2 // 3]} … {text[-_READ // 3 :]}"


def _cause(messages: list[str]) -> str:
    """The vendor's sentence; where it only says that something behind it failed, what that said too."""
    first = messages[0] if messages else ""
    if first.lower().rstrip(".") in ("provider returned error", "error", "bad request", "upstream error"):
        rest = max(messages[1:], key=len, default="")
        return f"{first}: {rest}" if rest and rest != first else first
    return first


def _gather(value: Any, messages: list[str], marks: list[str], said: _Said, depth: int) -> None:
    if depth > 8:
        return
    if isinstance(value, list):
        for item in value[:20]:
            if isinstance(item, dict | list):
                _gather(item, messages, marks, said, depth + 1)
            elif isinstance(item, str):
                messages.append(item)
        return
    for key, item in sorted(value.items(), key=lambda kv: isinstance(kv[1], dict | list)):
        name = str(key).lower()
        if name in _SKIPPED:
            continue
        if isinstance(item, dict | list):
            _gather(item, messages, marks, said, depth + 1)
        elif name in _DELAYS and isinstance(item, str | int | float):
            said.delays.append(str(item))
            marks.append(name)
        elif isinstance(item, str):
            _take(name, item, messages, marks, said, depth)
        elif isinstance(item, int) and not isinstance(item, bool) and name in FIELDS:
            said.windows.append(item)
        elif isinstance(item, int) and not isinstance(item, bool) and name in ("code", "status", "status_code"):
            marks.append(str(item))
            said.status = said.status or (item if 400 <= item < 600 else 0)


def _take(name: str, item: str, messages: list[str], marks: list[str], said: _Said, depth: int) -> None:
    if name in _MESSAGES:
        inner = _json(item) if item.lstrip()[:1] in ("{", "[") else None
        if isinstance(inner, dict | list):
            _gather(inner, messages, marks, said, depth + 1)
        elif item:
            messages.append(item)
    elif name in _MARKS:
        marks.append(item)
        if name in ("code", "status") and item.isdecimal() and 400 <= int(item[:4]) < 600:
            said.status = said.status or int(item[:4])


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _plain(text: str) -> str:
    """The readable words of an HTML page or of a bare line."""
    if "<" in text[:200]:
        text = re.sub(r"<[^<>]*>", " ", _shown_part(text[:_PAGE]))
    return " ".join(text.split())


_HIDDEN = re.compile(r"<(?:(script|style)\b|!--)", re.IGNORECASE)


def _shown_part(page: str) -> str:
    """The page without scripts, styles and comments. One that does not end hides the rest, as in a browser."""
    shown: list[str] = []
    low, at = page.lower(), 0
    while found := _HIDDEN.search(page, at):
        shown.append(page[at : found.start()])
        closing = f"</{found[1].lower()}" if found[1] else "-->"
        at = low.find(closing, found.end())
        if at < 0:
            break
        at += 0 if found[1] else len(closing)
    else:
        shown.append(page[at:])
    return " ".join(shown)


def page_text(body: bytes) -> str:
    """A short excerpt of the words of a web page."""
    return _clip(mask(_plain(body.decode("utf-8", "replace"))[:_READ]))[:200]


def _clip(text: str) -> str:
    text = " ".join(well_formed(text).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_SECRET = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|key|AIza|hf|Bearer)[-_ ](?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_\-]{12,}|"
    r"\bBearer [A-Za-z0-9_\-]{16,}|\bAIza[A-Za-z0-9_\-]{20,}"
)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without the given secrets, those of our environment, and whatever looks like a key."""
    from orkas.infra.redact import redact  # its patterns take a while to compile

    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return redact(_SECRET.sub("***", text))
