"""What a page is when it is not what was asked for: a wall, an empty shell, a refusal. Said, never shown as the text.

Judged by how a page is made and how little it says, not by a word in it: an article about captchas is an article.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urljoin

from orkas.infra.guard import Guard, Refused
from orkas.tools.web.article import Article

__all__ = ["is_challenge", "sent_on", "status_said", "walls"]

_CHALLENGES = re.compile(
    r"just a moment\.{0,3}|attention required! \| cloudflare|access denied|are you (?:a )?(?:human|robot)\??"
    r"|verify(?:ing)? (?:that )?you are (?:a )?human.{0,20}|security check.{0,30}|ddos-guard|robot check|captcha"
    r"|please (?:wait|verify).{0,40}|pardon our interruption.{0,5}|checking your browser.{0,40}"
    r"|安全验证|人机验证|百度安全验证",
    re.IGNORECASE,
)
_CHALLENGE_PARTS = re.compile(
    r"challenge-platform|cf-chl|_cf_chl_opt|g-recaptcha|h-captcha|hcaptcha\.com|cf-turnstile|geo\.captcha-delivery"
    r"|px-captcha|awswafcaptcha|perimeterx|imperva|_Incapsula_Resource|anomaly-modal",
    re.IGNORECASE,
)
_LITTLE = 1_500
"""Characters of text of a page that has no more to say than what stands in the way."""
_LOGIN_TITLE = re.compile(
    r"\b(?:log ?in|sign ?in|anmelden|anmeldung|connexion|iniciar sesión|accedi|inloggen)\b"
    r"|登录|登錄|ログイン|로그인|войти|вход",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"<input\b[^>]{0,500}?type\s*=\s*[\"']?password", re.IGNORECASE)
_CONSENT = re.compile(
    r"cookie|consent|your privacy|datenschutz|einwillig|zustimm|données personnelles|confidentialité|privacidad"
    r"|隐私|同意|クッキー|個人情報|쿠키|файлы cookie|согласи",
    re.IGNORECASE,
)
_ACCEPT = re.compile(
    r"accept|agree|reject|manage|preferences|akzept|zustimmen|ablehn|accepter|refuser|aceptar|rechazar|接受|同意|拒否|принять",
    re.IGNORECASE,
)
_NEEDS_SCRIPT = re.compile(
    r"(?:enable|requires?|need to enable|without|turn on|activate|activer|aktivier\w*)\W+(?:\w+\W+){0,3}java\s?script"
    r"|java\s?script (?:is|must be|to be)? ?(?:disabled|required|enabled|off|not)",
    re.IGNORECASE,
)
_SAID = {
    400: "the server does not understand the address", 401: "it asks for a login", 402: "it asks for payment",
    403: "the server refuses to show it", 404: "there is no such page", 406: "there is no readable form of it",
    410: "the page is gone", 429: "too many requests: the server wants to be asked later",
    451: "it is withheld for legal reasons", 500: "the server failed", 502: "the server behind it failed",
    503: "the server is not available now", 504: "the server behind it did not answer",
}  # fmt: skip


def status_said(status: int) -> str:
    """What an HTTP status from 400 on means, with the way out."""
    said = _SAID.get(status) or ("the server failed" if status >= 500 else "the server refuses")
    way = "try again later" if status == 429 or status >= 500 else "try another source"
    return f"HTTP {status}: {said}; {way}"


_SEEN = 500_000
"""Characters of a page in which its parts are looked for."""


def is_challenge(status: int, headers: Mapping[str, str], html: str, article: Article) -> bool:
    """A page that stands before the page and asks for proof of being a person."""
    if headers.get("cf-mitigated", "").lower() == "challenge":
        return True
    if len(article.text) > _LITTLE:
        return False
    titled = _CHALLENGES.fullmatch(article.title.strip()) is not None
    parts = _CHALLENGE_PARTS.search(html[:_SEEN]) is not None
    refused = status in (403, 429, 503)
    return (titled and (parts or refused)) or (parts and (refused or _asks(article)))


def _asks(article: Article) -> bool:
    """Says hardly anything but that a person is to show that they are one."""
    text = f"{article.title} {article.text}".lower()
    return len(text) < 600 and any(word in text for word in ("human", "robot", "captcha", "verif", "验证", "challenge"))


def walls(article: Article, url: str, html: str) -> list[str]:
    """What stands in the way of the text, as sentences for a reader; empty for an ordinary page."""
    text = article.text
    said: list[str] = []
    if len(text) < _LITTLE:
        if _PASSWORD.search(html[:_SEEN]) or (
            _LOGIN_TITLE.search(article.title) and re.search(r"(?:log|sign)[-_]?in|/auth|/sso", url.lower())
        ):
            said.append("this is a login page, not the text behind it; ask the user, or try another source")
        elif _is_consent(text, article.title):
            said.append("there is only a question about cookies or consent here, not the text; try another source")
    if len(text) < 150 and not said and _is_shell(article, html):
        said.append("the page makes its text by scripts, which are not run here; look for a feed or an API")
    return said


def sent_on(article: Article, url: str) -> str:
    """Where a page that says hardly anything sends its reader by itself, as a plain address; a stranger's word."""
    if len(article.text) >= _HARDLY or not article.refresh:
        return ""
    try:
        return Guard().target(urljoin(url, article.refresh)).url
    except (Refused, ValueError):
        return ""


_HARDLY = 300
"""Characters."""


def _is_consent(text: str, title: str) -> bool:
    sentences = [s for s in re.split(r"[.!?。！？\n]+", f"{title}\n{text}") if s.strip()]
    about = sum(1 for s in sentences if _CONSENT.search(s) or _ACCEPT.search(s))
    return bool(_CONSENT.search(text)) and bool(_ACCEPT.search(text)) and about * 2 >= len(sentences)


def _is_shell(article: Article, html: str) -> bool:
    head = html[:_SEEN]
    return bool(_NEEDS_SCRIPT.search(head)) or ("<script" in head.lower() and len(article.text) < 25)
