"""What a search engine is, which ones are ready, and the one way they ask the network."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import msgspec

from orkas.infra.config import ENGINES as NAMES
from orkas.infra.errors import ProviderError, ToolFailed, UsageError
from orkas.infra.messages import scrub
from orkas.infra.net import Http, Limits
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.tool import ToolContext

__all__ = [
    "ASKS_FOR_PROOF", "NAMES", "Engine", "EngineFailed", "Found", "Hit", "Settings", "TurnEngine", "ask", "ask_json",
    "is_challenge", "query_of", "rows",
]  # fmt: skip

ASKS_FOR_PROOF = "asks for proof of being a person (a captcha)"
TIMEOUT_S = 20.0
"""Seconds for one engine."""
_MAX_BYTES = 4_000_000


class Hit(msgspec.Struct, frozen=True):
    """One result, as the engine gave it."""

    title: str
    url: str
    snippet: str = ""


class EngineFailed(ToolFailed):
    """This engine gave no answer; another one may. ``cost_usd``: what it cost all the same; None: not known."""

    def __init__(self, message: str, *, hint: str = "", cost_usd: float | None = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.cost_usd = cost_usd


class Found(msgspec.Struct, frozen=True):
    """What an engine of the turn found."""

    hits: list[Hit]
    by: str
    """Who searched, in words."""
    cost_usd: float | None = 0.0
    """None: not known."""


class Engine(Protocol):
    name: str

    async def search(self, query: str, count: int) -> list[Hit]:
        """At most about ``count`` results, the best first; none is no failure.

        Raises:
            EngineFailed: one sentence says why, and what to do.
        """
        ...


class TurnEngine(Protocol):
    """An engine that searches with what the turn has: who answers in it, and what may still be spent."""

    name: str

    async def search_in(self, context: ToolContext, query: str, count: int) -> Found:
        """As ``Engine.search``."""
        ...


def query_of(url: str, fields: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}"


class Settings(msgspec.Struct, frozen=True):
    """What the user set for an engine, by name, so that a sentence can say what to look at."""

    address: str
    key: str = ""
    """Empty: the engine has none."""
    otherwise: str = "wait some minutes, or use another engine"
    """The way out where the engine itself will not."""


async def ask(
    name: str, url: str, headers: Mapping[str, str], body: bytes | None = None, *, settings: Settings
) -> tuple[int, str]:
    """One request to an engine: status and body. Addresses of engines are the user's or ours, so proxies hold.

    Raises:
        EngineFailed: it was not reached, refused the key, wants to be asked less often, asks for proof of being a
            person, points elsewhere (nothing is followed), or sent nothing, or too much; or a setting is of no use.
    """
    from orkas.tools.web.charset import charset_of_header, decode

    http = Http(limits=Limits(connect=10.0, first_byte=TIMEOUT_S, idle=TIMEOUT_S))
    try:
        async with asyncio.timeout(TIMEOUT_S), http.get(url, headers) if body is None else http.post(
            url, headers, body
        ) as answer:
            status, data, said = answer.status, await answer.read_all(_MAX_BYTES + 1), answer.headers
    except TimeoutError:
        raise EngineFailed(f"{name} did not answer within {TIMEOUT_S:g} seconds", hint="try again later") from None
    except (UsageError, ValueError):  # an address that is none; what the client says of it may hold the key
        faulty = settings.key if not all(value.isprintable() for value in headers.values()) else settings.address
        way = f"the user has to correct {faulty}"
        raise EngineFailed(f"{name} cannot be asked with its settings", hint=way) from None
    except ProviderError as error:  # beyond the connection it may hold words of the server
        why = "it broke off, or sent what is no HTTP" if error.reached else error.message
        way = "check the network, or use another engine"
        raise EngineFailed(f"{name} could not be asked: {why}", hint=way) from None
    finally:
        await http.aclose()
    charset = charset_of_header(said.get("content-type", ""))
    read = await in_thread(decode, data[:_MAX_BYTES], charset, markup=data.lstrip()[:1] == b"<")
    if status != 200 and is_challenge_answer(said, read.text):
        raise EngineFailed(f"{name} {ASKS_FOR_PROOF}", hint=settings.otherwise)
    if status >= 300:
        raise _refused(name, status, said, settings)
    if len(data) > _MAX_BYTES:
        raise EngineFailed(f"{name} sent more than {_MAX_BYTES // 10**6} MB", hint="search with other words")
    if not read.text.strip():
        raise EngineFailed(f"{name} sent an empty answer", hint="try again later")
    return status, read.text


def _refused(name: str, status: int, said: Mapping[str, str], settings: Settings) -> EngineFailed:
    """What a status from 300 on means."""
    if status in (401, 403):
        way = f"the user has to check {settings.key}" if settings.key else settings.otherwise
        return EngineFailed(f"{name} refuses the request (HTTP {status})", hint=way)
    if status == 429:
        wait = said.get("retry-after", "")
        later = f"in {wait} seconds" if wait.isdecimal() and len(wait) < 7 else "later"
        return EngineFailed(f"{name} has been asked too often", hint=f"ask again {later}, or less often")
    if status == 402:
        return EngineFailed(f"the plan of {name} is used up", hint="the user has to renew it or choose another engine")
    if status < 400:
        what = f"{name} answered HTTP {status} and points elsewhere"
        return EngineFailed(what, hint=f"the user has to check {settings.address}")
    return EngineFailed(f"{name} answered HTTP {status}", hint="try again later, or with other words")


async def ask_json(
    name: str, url: str, headers: Mapping[str, str], body: bytes | None = None, *, having: Sequence[str],
    settings: Settings,
) -> dict[str, Any]:
    """As ``ask``, and the body as one JSON object. ``having``: each answer of this engine has one of these fields, also
    one without results; what has none is no answer to a search."""
    _, text = await ask(name, url, headers, body, settings=settings)
    try:
        value = scrub(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and any(field in value for field in having):
        return value
    if value is None and is_challenge(text):
        raise EngineFailed(f"{name} {ASKS_FOR_PROOF}", hint=settings.otherwise)
    what = "a web page" if value is None and text.lstrip().startswith("<") else "something else"
    raise EngineFailed(
        f"{name} answered with {what} instead of results", hint=f"check {settings.address}, or try later"
    )


def is_challenge(page: str) -> bool:
    """Whether a page that is no page of results asks for proof of being a person."""
    return _CHALLENGE.search(page[:500_000]) is not None


_CHALLENGE = re.compile(
    r"captcha|cf-challenge|cf-chl|challenge-platform|challenge-form|cf-turnstile|anomaly-modal|unusual traffic"
    r"|<title>\s*just a moment|are you (?:a robot|human)|not a robot|verify you are human",
    re.IGNORECASE,
)
_ASKING = re.compile(r"captcha|challenge|/sorry/|anomaly|verify", re.IGNORECASE)
"""In an address that an engine sends on to."""


def is_challenge_answer(headers: Mapping[str, str], text: str) -> bool:
    """The same of an answer that is no page of results by its status."""
    if headers.get("cf-mitigated", "").lower() == "challenge" or _ASKING.search(headers.get("location", "")[:2_000]):
        return True
    return text.lstrip()[:1] == "<" and is_challenge(text)


def rows(value: Any, *, title: str = "title", url: str = "url", snippet: str) -> list[Hit]:
    """Results out of a list of objects; what is no result is left out."""
    found = []
    for row in value if isinstance(value, list) else []:
        if isinstance(row, dict) and isinstance(row.get(url), str):
            said = [row.get(name) if isinstance(row.get(name), str) else "" for name in (title, snippet)]
            found.append(Hit(said[0] or "", row[url], said[1] or ""))
    return found
