"""Secrets taken out of text before it is written anywhere: the log, error lines, what ``orkas request`` shows.

Two nets: the exact values of the secrets in our environment (also in base64 and URL form), then the shapes that
secrets have. What is caught becomes ``***``; the name beside it stays, so that the line still says what it was about.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache

__all__ = ["MASK", "SECRET_HEADERS", "looks_secret", "mask_headers", "redact", "secret_name"]

MASK = "***"

_NAME = (
    r"(?:api[-_.]?key|apikey|access[-_.]?key(?:[-_.]?id)?|secret[-_.]?key|private[-_.]?key|signing[-_.]?key|secret"
    r"|passw(?:or)?d|passphrase|token|credentials?|authorization|auth|session[-_.]?id|sessionid|cookie)"
)
_SHAPES = (
    r"sk-[A-Za-z0-9_-]{8,}",  # OpenAI, Anthropic, DeepSeek, OpenRouter
    r"(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}",  # Stripe
    r"AIza[0-9A-Za-z_-]{30,}",  # Google
    r"ya29\.[0-9A-Za-z_.-]{10,}",
    r"GOCSPX-[0-9A-Za-z_-]{20,}",
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",  # AWS
    r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
    r"xox[abeoprs]-[A-Za-z0-9-]{8,}",  # Slack
    r"hf_[A-Za-z0-9]{20,}",  # Hugging Face
    r"gsk_[A-Za-z0-9]{20,}",  # Groq
    r"xai-[A-Za-z0-9]{20,}",
    r"pplx-[A-Za-z0-9]{20,}",
    r"r8_[A-Za-z0-9]{20,}",  # Replicate
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{30,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",  # JWT
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_COOKIE = re.compile(r"((?:set-)?cookie[\"']?\s*[:=]\s*[\"']?)([^\r\n\"']+)", re.IGNORECASE)
_SCHEME = re.compile(r"\b((?:bearer|basic|digest|apikey)\s+)([A-Za-z0-9._~+/=:-]{6,})", re.IGNORECASE)
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)([^\s/@]+)(@)", re.IGNORECASE)
_QUERY = re.compile(
    r"([?&;](?:[\w.-]*(?:" + _NAME + r"|signature|credential)|key|sig|code|se|sp|policy|key-pair-id)=)([^&\s\"'<>#]+)",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?<![A-Za-z])((?:[A-Za-z0-9]+[-_.])*(?:" + _NAME + r"|pwd)(?:[-_.][A-Za-z0-9]+)?[\"']?\s*(?:=>|[=:])\s*)"
    r"(\"(?:[^\"\\\r\n]|\\.)*\"?|'(?:[^'\\\r\n]|\\.)*'?|[^\s,;&\"'(){}\[\]]+)",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"(?<![A-Za-z0-9_-])(?:" + "|".join(_SHAPES) + ")")
_SECRET_NAME = re.compile(r"(?:^|[-_.])" + _NAME + r"s?$", re.IGNORECASE)

SECRET_HEADERS = frozenset({
    "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie",
    "x-auth-token", "openai-organization",
})  # fmt: skip


def secret_name(name: str) -> bool:
    """Whether a variable, key or header of this name holds a secret: ``OPENAI_API_KEY``, ``db.password``."""
    return _SECRET_NAME.search(name) is not None


def looks_secret(value: str) -> bool:
    """Whether a value has the shape of a secret, or is one of those in our environment."""
    return redact(value) != value


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers fit for showing: a secret header loses its value, any other what looks like a secret in it."""
    return {k: MASK if k.lower() in SECRET_HEADERS or secret_name(k) else redact(v) for k, v in headers.items()}


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """``text`` with every secret we can tell replaced by ``***``. Idempotent; never raises."""
    for value in _known(os.environ if environ is None else environ):
        if value in text:
            text = text.replace(value, MASK)
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _USERINFO.sub(rf"\1{MASK}\3", text)
    text = _COOKIE.sub(rf"\1{MASK}", text)
    text = _SCHEME.sub(rf"\1{MASK}", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _SHAPE.sub(MASK, text)
    return _PAIR.sub(_mask_pair, text)


def _mask_pair(found: re.Match[str]) -> str:
    """``name=value`` loses the value and keeps its quotes; the name of a scheme before a masked value stays."""
    name, value = found[1], found[2]
    quote = value[0] if value[0] in "\"'" else ""
    if value.lower() in ("bearer", "basic", "digest", "null", "none", "true", "false"):
        return found[0]
    if quote and value.strip(quote).lower() in ("", "bearer ***", "basic ***"):
        return found[0]
    closing = quote if quote and len(value) > 1 and value.endswith(quote) else ""
    return f"{name}{quote}{MASK}{closing}"


def _known(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets of our environment, longest first. Values under 8 characters are too common to search for."""
    return _forms(tuple(v for k, v in environ.items() if len(v) >= 8 and secret_name(k)))


@lru_cache(maxsize=4)
def _forms(values: tuple[str, ...]) -> tuple[str, ...]:
    import base64
    from urllib.parse import quote

    forms: set[str] = set()
    for value in values:
        raw = value.encode("utf-8", "surrogateescape")
        forms |= {value, quote(raw, safe=""), base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    return tuple(sorted(forms, key=len, reverse=True))
