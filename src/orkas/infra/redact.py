"""Secrets taken out of text before it is written anywhere: the log, error lines, what ``orkas request`` shows.

Two nets: the exact values of the secrets in our environment and of those this process has met (in all their
disguises), then the shapes that secrets have. What is caught becomes ``***``; the name beside it stays, so that the
line still says what it was about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orkas.infra import environment
from orkas.infra.disguises import Finder, finder
from orkas.infra.known import MASK, TELLING, known, without

__all__ = ["MASK", "SECRET_HEADERS", "looks_secret", "mask_headers", "redact", "secret_name"]

_NAME = (
    r"(?:api[-_.]?key|apikey|access[-_.]?key(?:[-_.]?id)?|secret[-_.]?key|private[-_.]?key|signing[-_.]?key|secret"
    r"|passw(?:or)?d|passphrase|token|credentials?|authorization|auth|session[-_.]?id|sessionid|cookie)"
)
_TELLING = r"(?:api[-_.]?key|secret|passw(?:or)?d|passphrase|token|credentials?)"
"""Words that say it even inside a longer one: ``PGPASSWORD``, ``clientSecret``."""
_OPENS_NOTHING = r"(?:public|primary|foreign|sort|partition|cache|idempotency|routing|registry|host|hot)[-_.]?keys?"
"""Keys that open nothing."""
_SHAPES = (
    r"sk-[A-Za-z0-9_-]{8,}",  # OpenAI, Anthropic, DeepSeek, OpenRouter
    r"(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}",  # Stripe
    r"AIza[0-9A-Za-z_-]{30,}",  # Google
    r"AQ\.[0-9A-Za-z_-]{30,}",
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
_SCHEME = re.compile(
    r"([:=]\s*[\"']?)?\b((?:bearer|basic|digest|apikey)\s+)([A-Za-z0-9._~+/=:-]{6,})", re.IGNORECASE
)
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,256}:)([^\s/@]{1,1024})(@)", re.IGNORECASE)
_USER_ALONE = re.compile(  # a token, and no name
    r"(\bhttps?://)(?=[^\s/@]{0,1024}\d)([A-Za-z0-9_.~-]{16,1024})(@)", re.IGNORECASE
)
_QUERY = re.compile(
    r"([?&;](?:[\w.-]{0,60}(?:" + _NAME + r"|signature|credential)|key|sig|code|se|sp|policy|key-pair-id)=)"
    r"([^&\s\"'<>#]+)",
    re.IGNORECASE,
)
_VALUE = r"(\"(?:[^\"\\\r\n]|\\.)*\"?|'(?:[^'\\\r\n]|\\.)*'?|[^\s,;&\"'(){}\[\]]+)"
_PAIR = re.compile(
    r"(?<![A-Za-z0-9])((?:[A-Za-z0-9]{1,40}[-_.]){0,8}"
    r"(?:[A-Za-z0-9]{0,32}?" + _TELLING + r"|" + _NAME + r"|pwd)"
    r"(?:[-_.][A-Za-z0-9]+)?[\"']?\s*(?:=>|[=:])\s*)" + _VALUE,
    re.IGNORECASE,
)
_VARIABLE = re.compile(  # mean little in lower case: STRIPE_KEY, DB_PASS, SENTRY_DSN
    r"(?<![A-Za-z0-9_])([A-Z][A-Z0-9_]{0,80}_(?:KEY|PASS|PAT|DSN)(?:_V?\d+)?[\"']?\s*(?:=>|[=:])\s*)" + _VALUE
)
_SHAPE = re.compile(r"(?<![A-Za-z0-9_-])(?:" + "|".join(_SHAPES) + ")")
_SECRET_NAME = re.compile(
    r"(?:(?:^|[-_.])" + _NAME + r"|" + _TELLING + r"|[a-z0-9][-_.](?:key|pwd|pass|pat|dsn))s?(?:[-_.]?v?\d{1,3})?$",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(_OPENS_NOTHING + r"$", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]{1,15}(?:[ _-][a-z]{1,15}){0,3}\.?")
_PATH = re.compile(r"(?:~|\.{1,2})?/[^:@]*$|[A-Za-z]:\\")
_CODE = re.compile(
    r"(?:str|string|int|integer|number|bytes|bool|boolean|any|object|optional|null|none|nil|undefined|true|false|required|"
    r"missing|invalid|expired|unset|empty|unknown|not|is|the|an?|bearer|basic|digest)[.?!]?|"
    r"(?:self|this|os|process|env|args|config|options|request|settings)\.[\w.]+|\$\{?\w+\}?|%\w+%|<[\w -]+>",
    re.IGNORECASE,
)
"""What stands after a name in code and prose, and is no value."""

SECRET_HEADERS = frozenset({
    "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie",
    "x-auth-token", "openai-organization",
})  # fmt: skip


def secret_name(name: str) -> bool:
    """Whether a variable, key or header of this name holds a secret: ``OPENAI_API_KEY``, ``db.password``."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None


def looks_secret(value: str) -> bool:
    """Whether a value has the shape of a secret, or is one of those in our environment."""
    return redact(value) != value


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers fit for showing: a secret header loses its value, any other what looks like a secret in it."""
    return {k: MASK if k.lower() in SECRET_HEADERS or secret_name(k) else redact(v) for k, v in headers.items()}


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """``text`` with every secret we can tell replaced by ``***``. Idempotent; never raises."""
    text = without(text, _known(environment.environ if environ is None else environ))
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _USERINFO.sub(rf"\1{MASK}\3", text)
    text = _USER_ALONE.sub(rf"\1{MASK}\3", text)
    text = _COOKIE.sub(rf"\1{MASK}", text)
    text = _SCHEME.sub(_mask_scheme, text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _SHAPE.sub(MASK, text)
    text = _PAIR.sub(_mask_pair, text)
    return _VARIABLE.sub(_mask_variable, text)


def _mask_scheme(found: re.Match[str]) -> str:
    """``Bearer abc1`` loses the value; ``basic understanding`` is prose unless it stands as a value."""
    if not found[1] and _WORDS.fullmatch(found[3]):
        return found[0]
    return f"{found[1] or ''}{found[2]}{MASK}"


def _mask_pair(found: re.Match[str]) -> str:
    """``name=value`` loses the value and keeps its quotes; what code and prose put there stays."""
    name, value = found[1], found[2]
    quote = value[0] if value[0] in "\"'" else ""
    inner = value.strip(quote) if quote else value
    if len(inner) < 3 or inner.lower() in ("bearer ***", "basic ***"):
        return found[0]
    if _FOLDER.match(name) and _PATH.match(inner):
        return found[0]
    if not quote and (_CODE.fullmatch(value) or _is_call(found)):
        return found[0]
    closing = quote if quote and len(value) > 1 and value.endswith(quote) else ""
    return f"{name}{quote}{MASK}{closing}"


_FOLDER = re.compile(r"(?:OLD)?PWD\b", re.IGNORECASE)


def _is_call(found: re.Match[str]) -> bool:
    """``token = next_token()``, ``password: Optional[str]``."""
    opens = found.string[found.end() : found.end() + 1] in ("(", "[")
    return opens and re.fullmatch(r"[A-Za-z_.]+", found[2]) is not None


def _mask_variable(found: re.Match[str]) -> str:
    """As a pair, where the name is that of a secret and the value is no plain word, number or path."""
    name = found[1].rstrip("=>: \t\r\n\"'")
    value = found[2].strip("\"'")
    sure = "_PASS" in name and "=" in found[1]
    if _HARMLESS_NAME.search(name) or (not sure and (len(value) < 6 or _ordinary(value))):
        return found[0]
    return _mask_pair(found)


def _ordinary(value: str) -> bool:
    return value.isdecimal() or _WORDS.fullmatch(value) is not None or _PATH.match(value) is not None


def _known(environ: Mapping[str, str]) -> Finder:
    """Finds the secrets of our environment and those met so far. Values under 8 characters are too common to
    search for."""
    found = [*known(), *(key for k, v in environ.items() if _SEVERAL.search(k) for key in re.split(r"[,\s]+", v))]
    found += [v for k, v in environ.items() if secret_name(k) and (_SURE_NAME.search(k) or not _ordinary(v))]
    found += [p for v in environ.values() if "://" in v and "@" in v for p in _passwords(v)]
    return finder(tuple(v for v in dict.fromkeys(found) if len(v) >= TELLING))


_SEVERAL = re.compile(r"_KEYS$", re.IGNORECASE)
"""Variables that hold several keys."""
_SURE_NAME = re.compile(_NAME + r"|pass|pwd", re.IGNORECASE)


def _passwords(address: str) -> list[str]:
    """What a URL holds before its host: a password, or a token that stands alone."""
    return [found[2] for pattern in (_USERINFO, _USER_ALONE) for found in pattern.finditer(address)]
